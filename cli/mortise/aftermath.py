"""What is said after a program has ended on a fault: the places in its report, by name.

`mortise run` becomes the program, so somebody else has to wait for its end: a process of its own, no child of the
program's, that reads the report file when the program is gone and prints what the places are called.
"""

import os
import re
import select
import sys
import tempfile
from pathlib import Path

from mortise import symbols

PLACE = re.compile(r"(allocated_at|freed_at|seen_at)=(/.*?)\+0x([0-9a-f]+)(?= )")
SAID = {"allocated_at": "allocated", "freed_at": "freed", "seen_at": "noticed"}


def explain(line: str) -> list[str]:
    """What the places of a fault's line are called, a line each; nothing is invented where nothing is known."""
    return [
        f"  {SAID[what]} at {symbols.words(symbols.place(file, int(offset, 16)))}"
        for what, file, offset in PLACE.findall(line)
    ]


def watch(environment: dict[str, str]) -> None:
    """Has the library write reports to a file, the user's if one is set, and leaves a process behind that reads what is new in it when
    this one has ended.
    """
    named = named_file(environment)
    try:
        me = os.pidfd_open(os.getpid())
        report = Path(named or new_file())
    except (OSError, AttributeError):
        return  # an old kernel or Python, or no room for temporary files: the report has its addresses
    if named is None:
        environment["MORTISE_REPORT_FILE"] = str(report)
    old = os.path.getsize(report) if os.path.isfile(report) else 0
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            _wait(me, report, old, named is None)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(me)


def new_file() -> str:
    handle, name = tempfile.mkstemp(prefix="mortise-report-")
    os.close(handle)
    return name


def named_file(environment: dict[str, str]) -> str | None:
    """The file that the settings name for reports of this process; the last one counts, and a variable of its own most, as in the library."""
    pairs = [pair.strip().partition("=") for pair in environment.get("MORTISE_CONF", "").split(",")]
    listed = [value for key, _, value in pairs if key == "report_file"]
    name = environment.get("MORTISE_REPORT_FILE") or (listed[-1] if listed else "")
    return name.replace("%p", str(os.getpid())) or None  # the program will have this number


def _wait(program: int, report: Path, old: int, is_ours: bool) -> None:
    """Waits for the end of the program, then explains what it left behind after the first `old` bytes. Never returns."""
    try:
        os.setsid()  # a Ctrl-C is meant for the program
        os.close(0)
        os.close(1)
        select.select([program], [], [])
        if os.path.isfile(report):  # a FIFO or a terminal is nothing to read again
            with report.open("rb") as file:
                file.seek(old)
                for line in file.read().decode(errors="replace").splitlines():
                    for said in explain(line):
                        print(said, file=sys.stderr)
            sys.stderr.flush()
        if is_ours:
            report.unlink()
    finally:
        os._exit(0)
