"""The two streams: results on stdout, progress on stderr; plain where no terminal listens or NO_COLOR is set."""

from rich import box
from rich.console import Console

LINES = box.SIMPLE_HEAD
out = Console(soft_wrap=False, highlight=False)
progress = Console(stderr=True, highlight=False)


def at_least(columns: int) -> Console:
    """Standard output for what must not be squeezed: where the terminal is narrower, lines wrap."""
    return Console(soft_wrap=False, highlight=False, width=max(out.width, columns))
