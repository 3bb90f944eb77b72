"""How a program ended, in words: what the launcher holds as 128 + signal is that signal's name."""

import signal


def signal_of(status: int) -> str | None:
    """The name of the signal that ended it; None where it ended by itself."""
    try:
        return signal.Signals(status - 128).name if status > 128 else None
    except ValueError:
        return None


def describe(status: int) -> str:
    name = signal_of(status)
    return f"was ended by {name}" if name else f"ended with exit status {status}"


def outlived(count: int) -> str:
    """What is to be known of a run whose program left processes that went on, as daemons do; they are ended with the run."""
    what = "1 process" if count == 1 else f"{count} processes"
    return (
        f"{what} went on when the program had ended, and no figure holds what that would have done: have it stay in the foreground, "
        "and describe a server with --load"
    )


def tail(text: str) -> str:
    """What it said last, to be put behind how it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:160]}" if lines else ""
