"""SIGTERM, and SIGHUP of a terminal that goes away, are answered as Ctrl-C is: programs that run are ended, temporary files go, and what a comparison has is told.

`timeout` sends it to the process and to its group, twice within an instant; the second finds the first being answered.
"""

import signal
from typing import Any

ANSWERED = (signal.SIGTERM, signal.SIGHUP)
_asked: list[int] = []


def heed() -> None:
    """From here on; where whoever started this has it ignored, it stays so."""
    for number in ANSWERED:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: Any) -> None:
    if not _asked:
        _asked.append(number)
        raise KeyboardInterrupt


def status(ended: Any) -> Any:
    """The exit status: that of an interruption says by which signal. Nothing is left to be ended by another one."""
    for number in ANSWERED if _asked else ():
        signal.signal(number, signal.SIG_IGN)
    return 128 + _asked[0] if _asked and ended == 128 + signal.SIGINT else ended
