"""How a program joins the list: a function of a Stage with `@program` before it; its docstring says what it asks."""

from collections.abc import Callable
from dataclasses import dataclass

from programs.stage import Stage


@dataclass(frozen=True)
class Program:
    """A real program: `play` runs it on a stage once."""

    name: str
    play: Callable[[Stage], None]


PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Registers a definition under `name`."""

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        assert name not in PROGRAMS, f"two programs are named {name}"
        PROGRAMS[name] = Program(name, play)
        return play

    return register
