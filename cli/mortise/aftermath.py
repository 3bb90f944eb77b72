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
    """Has the library write reports to a file, and leaves a process behind that reads it when this one has ended."""
    if environment.get("MORTISE_REPORT_FILE") or "report_file=" in environment.get("MORTISE_CONF", ""):
        return  # the user reads it
    try:
        me = os.pidfd_open(os.getpid())
    except (OSError, AttributeError):
        return
    handle, name = tempfile.mkstemp(prefix="mortise-report-")
    os.close(handle)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            _wait(me, Path(name))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(me)
    environment["MORTISE_REPORT_FILE"] = name


def _wait(program: int, report: Path) -> None:
    """Waits for the end of the program, then explains what it left behind. Never returns."""
    try:
        os.setsid()  # a Ctrl-C is meant for the program
        os.close(0)
        os.close(1)
        select.select([program], [], [])
        for line in report.read_text(errors="replace").splitlines():
            for said in explain(line):
                print(said, file=sys.stderr)
        sys.stderr.flush()
        report.unlink()
    finally:
        os._exit(0)
