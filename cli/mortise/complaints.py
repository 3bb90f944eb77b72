"""What the compiler has to say, turned into one line about the composition."""

import re

from mortise import composition
from mortise.composition import Composition


def verdict(said: str, made: Composition) -> str:
    """The first error, at the line of the composition that it is about."""
    lines = said.splitlines()
    errors = [i for i, line in enumerate(lines) if re.search(r"\b(fatal )?error: ", line)]
    if not errors:
        return tail("the compiler", said)
    first = errors[0]
    what = re.split(r"error: ", lines[first], maxsplit=1)[1]
    if refused := re.search(r"(LayerDoesNotFit|LastEntryIsNoSource)<(?:mortise::)?(\w+)", what):
        return misfit(made, refused[1], refused[2])
    what = re.sub(r"^static assertion failed(: |due to requirement '.*?': ?)?", "", what).strip('"')
    if gap := re.search(r"NothingServes<(\d+)\w*, (\d+)", what):
        what = composition.gap(int(gap[1]), int(gap[2]))
    if "No such file" in what and "fatal" in lines[first]:
        what += ": is the compiler's C++ library installed?"
    spec = re.escape(str(made.path))
    for line in [*reversed(lines[: first + 1]), *lines[first + 1 :]]:
        if match := re.match(rf"(?:In file included from |\s*from )?{spec}:(\d+)", line.strip()):
            return f"{made.path}:{match[1]}: {what}"
    return f"{made.path}: {what} ({lines[first].split(': ')[0]})"


def misfit(made: Composition, why: str, name: str) -> str:
    """A refusal by the framework itself, deep inside a route: who does not fit, and where it stands."""
    p = next((p for p in made.entries() if p.entry.name == name), made.layers[0])
    if why == "LastEntryIsNoSource":
        what = f"the last layer of this list is '{name}', which is no source"
    elif p.entry.family == "source":
        what = composition.misplaced(p.entry)
    else:
        what = f"{name} does not fit on what is below it: it needs {p.entry.needs or 'another layer below'}"
    return f"{made.path}:{p.line}: {what}"


def tail(program: str, said: str) -> str:
    lines = said.strip().splitlines() or ["it says nothing"]
    telling = (line for line in lines if re.search(r"error: (?!ld returned)|undefined reference|cannot find", line))
    return f"{program} failed: {next(telling, lines[-1])}"
