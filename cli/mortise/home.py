"""Where the allocators, their descriptions and the helpers of this installation lie."""

import os
from pathlib import Path

from mortise.errors import WrongUse

PACKAGE = Path(__file__).resolve().parent


def homes() -> list[Path]:
    """Folders that may hold `lib/`, `share/mortise/` and `libexec/`, the most specific first."""
    named = os.environ.get("MORTISE_HOME")
    if named:
        if not Path(named).is_dir():
            raise WrongUse(
                f"MORTISE_HOME names '{named}', which is not a folder: "
                "unset it, or name one that holds lib/ and share/mortise/"
            )
        return [Path(named).resolve()]
    checkout = PACKAGE.parent.parent
    candidates = [PACKAGE, checkout / "build", PACKAGE.parent.parent.parent.parent, Path("/usr")]
    return [
        folder for folder in candidates if (folder / "share" / "mortise").is_dir() or (folder / "libexec").is_dir()
    ]


def find(*names: str) -> Path | None:
    """The first of the files, given relative to a home, that exists."""
    for folder in homes():
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None


def helper(name: str) -> Path:
    """A program or probe that comes with the command line."""
    found = find(f"libexec/{name}", f"lib/mortise/{name}")
    if found is None:
        raise WrongUse(
            f"'{name}' is missing from this installation (looked in {looked()}): run 'make build', or set MORTISE_HOME"
        )
    return found


def looked() -> str:
    return ", ".join(str(folder) for folder in homes()) or "no home was found"


def descriptions() -> list[Path]:
    """The machine-readable descriptions of what ships, each name once."""
    found: dict[str, Path] = {}
    for folder in homes():
        for path in sorted((folder / "share" / "mortise").glob("*.json")):
            found.setdefault(path.name, path)
    return list(found.values())


def library(name: str) -> Path | None:
    """The preloadable library of an allocator of ours, where it is built or installed."""
    file = f"libmortise-{name}.so"
    return find(
        f"lib/{file}",
        f"lib/{os.uname().machine}-linux-gnu/{file}",
        f"lib/{os.uname().machine}-linux-gnu/mortise/{file}",
    )
