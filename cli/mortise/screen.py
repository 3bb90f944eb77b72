"""The two streams: results on stdout, progress on stderr; plain where no terminal listens or NO_COLOR is set."""

import os
import sys

from rich import box
from rich.console import Console

LINES = box.SIMPLE_HEAD
UNFOLDED = 10_000  # columns of what is no terminal: a file or a pipe gets a row a line, unless COLUMNS says otherwise
out = Console(soft_wrap=False, highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNFOLDED)
# Results of commands whose program writes to the same standard output: its bytes must stay what they are.
beside = Console(
    stderr=True,
    soft_wrap=False,
    highlight=False,
    width=None if sys.stderr.isatty() or "COLUMNS" in os.environ else UNFOLDED,
)
progress = Console(stderr=True, highlight=False)


def at_least(columns: int) -> Console:
    """Standard output for what must not be squeezed: where the terminal is narrower, lines wrap."""
    return Console(soft_wrap=False, highlight=False, width=max(out.width, columns))
