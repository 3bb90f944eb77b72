"""What compositions are compiled from: headers, the malloc interface, and the flags that this installation was built
with (share/mortise/kit.json, written by the build).
"""

from dataclasses import dataclass
from pathlib import Path

from mortise import formats, home
from mortise.errors import WrongUse


@dataclass(frozen=True)
class Kit:
    version: str
    compiler: str
    include: Path  # holds mortise/
    sources: Path  # holds abi/
    generated: Path  # holds exports.map, keys.inc, variables.inc
    compile: list[str]
    link: list[str]
    libraries: list[str]
    files: list[str]
    options: dict[str, list[str]]  # more of them, for some of the files


def kit() -> Kit:
    path = home.find("share/mortise/kit.json")
    if path is None:
        raise WrongUse(
            f"share/mortise/kit.json is missing from this installation (looked in {home.looked()}): "
            "run 'make build', install Debian's libmortise-dev, or set MORTISE_HOME"
        )
    told = formats.load(path, formats.KIT)
    places = {key: (path.parent / told[key]).resolve() for key in ("include", "sources", "generated")}
    for key, place in places.items():
        if not place.is_dir():
            raise WrongUse(f"'{path}' names the folder '{place}' for its {key}, which is not there: run 'make build'")
    plain = {key: told[key] for key in ("version", "compiler", "compile", "link", "libraries", "files", "options")}
    return Kit(**plain, **places)


def include() -> Path:
    """Where the headers lie: of the installation, or of the checkout that this file is part of."""
    checkout = home.PACKAGE.parent.parent / "include"
    if home.find("share/mortise/kit.json") is None and (checkout / "mortise").is_dir():
        return checkout
    return kit().include
