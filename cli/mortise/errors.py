"""Everything a user can get wrong ends as one line on stderr and an exit status that says whose turn it is."""

import difflib
from collections.abc import Iterable

DECIDED = 0
RUN_FAILED = 1
WRONG_USE = 2
CANNOT_TELL = 3
GATE_HIT = 4


class Refusal(Exception):
    """Ends the command: `line` says what is wrong, what was expected and what to do."""

    status = WRONG_USE

    def __init__(self, line: str, status: int | None = None):
        super().__init__(line)
        if status is not None:
            self.status = status


class WrongUse(Refusal):
    """The command line itself is wrong."""


class CannotWork(Refusal):
    """Preflight says that what was asked cannot work for this program."""

    status = CANNOT_TELL


class RunFailed(Refusal):
    """A program under comparison could not be run."""

    status = RUN_FAILED


def unknown(kind: str, name: str, known: Iterable[str], hint: str) -> WrongUse:
    """The refusal for a name that does not exist, with the nearest one that does."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [known for known in names if known.lower() == name.lower()]
    guess = f"did you mean '{near[0]}'? " if near else f"known: {', '.join(names)}. " if names else ""
    return WrongUse(f"unknown {kind} '{name}': {guess}{hint}")
