"""The allocators that ship, read from the descriptions that the build generates beside them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import formats, home, peers
from mortise.errors import WrongUse, unknown


@dataclass(frozen=True)
class Allocator:
    """One allocator of ours: its description and its library, if that is built."""

    name: str
    description: dict[str, Any] = field(hash=False)
    library: Path | None

    @property
    def summary(self) -> str:
        return str(self.description.get("summary", ""))

    @property
    def progress(self) -> str:
        """The guarantee in words: the common one, or hit and refill where they differ."""
        progress = self.description.get("progress", {})
        words = [str(progress.get(step, "blocking")).replace("_", "-") for step in ("hit", "refill")]
        return words[0] if words[0] == words[1] else f"{words[0]} hit, {words[1]} refill"


def allocators() -> list[Allocator]:
    found = []
    for path in home.descriptions():
        document = formats.load(path)
        if isinstance(document, dict) and document.get("schema") == formats.ALLOCATOR:
            found.append(Allocator(str(document["name"]), document, home.library(str(document["name"]))))
    return sorted(found, key=lambda a: (a.name != "hslab", a.name))


def allocator(name: str) -> Allocator:
    known = {a.name: a for a in allocators()}
    if name in known:
        return known[name]
    if not known:
        raise WrongUse(
            f"no allocators are built here (looked in {home.looked()}): run 'make build', or set MORTISE_HOME"
        )
    if (peer := peers.named(name)) is not None or name == "glibc":
        whose = f"found on this machine ({peer.library})" if peer else "the system's own"
        raise WrongUse(f"'{name}' is {whose} and has no layers to explain: expected one of ours, as 'mortise list' shows them")
    raise unknown("allocator", name, known, "'mortise list' shows them")


def found(name: str) -> Allocator:
    """An allocator that ships by its name, or one of the user's own by its library or composition."""
    if name.endswith(".toml"):
        from mortise import building

        return own(building.cached(Path(name)))
    if "/" in name or ".so" in name:
        return own(Path(name))
    return allocator(name)


def own(library: Path) -> Allocator:
    from mortise import building

    description = building.description_in(library)
    if description is not None:
        return Allocator(str(description["name"]), description, library)
    for a in allocators():
        if a.library is not None and a.library.exists() and a.library.samefile(library):
            return a
    raise WrongUse(f"'{library}' says nothing of itself: expected a library that 'mortise build' made, or a .toml")


def built(name: str) -> Path:
    """The library of one of our allocators; refused when it is described but not there."""
    library = allocator(name).library
    if library is None:
        raise WrongUse(
            f"allocator '{name}' is described but libmortise-{name}.so is missing "
            f"(looked in {home.looked()}): run 'make build'"
        )
    return library
