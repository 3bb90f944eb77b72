"""The user's program, started as a shell would start it: in this process's place.

Python ignores two signals, and what is ignored stays so across exec: a program that writes into a closed pipe would
go on.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from mortise.errors import WrongUse

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def become(path: Path, program: list[str], environment: dict[str, str]) -> NoReturn:
    """This process becomes the program."""
    sys.stdout.flush()
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, program, environment)
    except OSError as e:
        raise WrongUse(f"cannot run '{path}': {e.strerror}") from None
