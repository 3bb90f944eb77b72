"""The user's program, started as a shell would start it: in this process's place, or beside it.

Python ignores two signals, and what is ignored stays so across exec: a program that writes into a closed pipe would
go on. Commands that wait for the program catch signals instead of ignoring them: exec sets those to their defaults.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from mortise.errors import WrongUse

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_NOTHING = "it ended without its destructors (_exit, exec), or could not write any more (chroot, a full disk)"


@contextmanager
def records() -> Iterator[Path]:
    """A folder that the program's processes write into; it is gone at the end. A daemon may write later still, so nobody else must be able
    to put one of that name in its place: where there is no TMPDIR it is not in /tmp, unless there is no folder of this user's own.
    A program that root starts may become another user, who has to get there: root's folders let everybody through and nobody look,
    and who does not know the inner one's name, as the program does, cannot pass.
    """
    is_root = os.geteuid() == 0
    own = "/run" if is_root else os.environ.get("XDG_RUNTIME_DIR")
    place = own if own and not os.environ.get("TMPDIR") and os.path.isdir(own) and os.access(own, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="mortise-", dir=place) as name:
        folder = Path(name)
        if is_root:
            os.chmod(folder, 0o711)
            folder /= secrets.token_hex(16)
            folder.mkdir()
            os.chmod(folder, 0o711)  # whatever the umask
        yield folder


def make_record(record: str) -> None:
    """The file that the program is to write at its end, by then perhaps as another user than root, who could not make it there: everybody
    who knows its name may write to it, and root alone read it. Runs in the program's process, before it is the program.
    """
    with suppress(OSError):  # the program makes it, or says that it cannot
        file = os.open(record.replace("%p", str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(file, 0o622)
        os.close(file)


def is_written(record: Path) -> bool:
    return record.is_file() and record.stat().st_size > 0


def become(path: Path, program: list[str], environment: dict[str, str]) -> NoReturn:
    """This process becomes the program."""
    sys.stdout.flush()
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, program, environment)
    except OSError as e:
        raise WrongUse(f"cannot run '{path}': {e.strerror}") from None


def run(path: Path, program: list[str], environment: dict[str, str], record: str) -> subprocess.Popen:
    """Runs the program to its end, whatever signal this process is sent meanwhile: that one is the program's. `record`: the file in a
    folder of `records` that it is to write; each %p in it is its process id.
    """
    prepare = partial(make_record, record) if os.geteuid() == 0 else None
    caught: list[int] = []
    process = None

    def pass_on(number: int, _: Any) -> None:
        if number == signal.SIGINT and has_terminal():
            return  # the program has it as well
        caught.append(number)
        if process is not None:
            process.send_signal(number)

    with handled(pass_on):
        try:
            process = subprocess.Popen(program, executable=path, env=environment, preexec_fn=prepare)
        except OSError as e:
            raise WrongUse(f"cannot run '{path}': {e.strerror}") from None
        for number in caught:
            process.send_signal(number)
        process.wait()
    return process


def status_of(process: subprocess.Popen) -> int:
    """How the program ended, as a shell would say it."""
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def killed(process: subprocess.Popen) -> str | None:
    """By which signal the program ended; None when it ended by itself."""
    return f"signal {-process.returncode} ended it" if process.returncode < 0 else None


def why_no_record(process: subprocess.Popen, folder: Path) -> str:
    """Why the program, which has ended, did not write the file in a folder of `records` that it was to write."""
    if how := killed(process):
        return how
    if on := heirs(folder):
        return went_on(on)
    return LEFT_NOTHING


def went_on(processes: list[int]) -> str:
    return f"it went on in the background (process {', '.join(map(str, processes))}) instead of staying in the foreground"


def heirs(folder: Path) -> list[int]:
    """Processes that go on when the program has ended, as daemons do: they have the record's name from it. O(processes)."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            if bytes(folder) in (place / "environ").read_bytes():
                found.append(int(place.name))
    return sorted(found)


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    """Signals that are to be passed on, handled; those that the caller ignores (nohup) stay ignored, here and in the program."""
    wanted = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def has_terminal() -> bool:
    """Whether a terminal's Ctrl-C goes to this process, and with it to the program."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
