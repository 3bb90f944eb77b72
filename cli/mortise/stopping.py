"""SIGTERM is answered as Ctrl-C is: programs that run are ended, temporary files go, and what a comparison has is told.

`timeout` sends it to the process and to its group, twice within an instant; the second finds the first being answered.
"""

import signal
from typing import Any

_asked: list[int] = []


def heed() -> None:
    """From here on; where whoever started this has it ignored, it stays so."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, _: Any) -> None:
    if not _asked:
        _asked.append(number)
        raise KeyboardInterrupt


def status(ended: Any) -> Any:
    """The exit status: that of an interruption says by which signal. Nothing is left to be ended by another one."""
    if _asked:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 128 + signal.SIGTERM if _asked and ended == 128 + signal.SIGINT else ended
