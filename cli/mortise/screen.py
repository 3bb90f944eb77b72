"""The two streams: results on stdout, progress on stderr; plain where no terminal listens or NO_COLOR is set."""

import os
import sys
from typing import TextIO

from rich import box
from rich.console import Console

LINES = box.SIMPLE_HEAD
UNFOLDED = 10_000  # columns of what is no terminal: a file or a pipe gets a row a line, unless COLUMNS says otherwise
NARROW = 80  # of a terminal that says it has no columns


def columns(stream: TextIO, otherwise: int | None) -> int | None:
    """None: as many as the terminal or COLUMNS say. None at all, which some say that have none, would show nothing."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said[:9]) == 0:
        return NARROW if stream.isatty() else otherwise or NARROW
    return None if stream.isatty() or said else otherwise


out = Console(soft_wrap=False, highlight=False, width=columns(sys.stdout, UNFOLDED))
# Results of commands whose program writes to the same standard output: its bytes must stay what they are.
beside = Console(
    stderr=True,
    soft_wrap=False,
    highlight=False,
    width=columns(sys.stderr, UNFOLDED),
)
progress = Console(stderr=True, highlight=False, width=columns(sys.stderr, None))


def at_least(columns: int) -> Console:
    """Standard output for what must not be squeezed: where the terminal is narrower, lines wrap."""
    return Console(soft_wrap=False, highlight=False, width=max(out.width, columns))
