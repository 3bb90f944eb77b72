"""What is compared: each arm is the user's program with one thing changed, and knows how to prove that the change
took effect.
"""

import os
import shlex
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mortise import catalogue, conf, elf, peers
from mortise.errors import CannotWork, WrongUse, unknown

AS_SHIPPED = "as-shipped"
CONTROL = "control"
GLIBC = "glibc"
HINT = "give one of them, a path to a .so or to a composition (.toml), NAME=env:KEY=VALUE, or NAME=cmd:PROGRAM"


@dataclass
class Arm:
    """One way to run the program."""

    name: str
    kind: str  # shipped, glibc, ours, peer, library, environment, command
    library: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    argv: list[str] | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def twin(self, name: str) -> "Arm":
        """The same under another name."""
        return replace(self, name=name)

    @property
    def preloads(self) -> bool:
        return self.library is not None


def parse_all(texts: list[str], as_shipped: str) -> list[Arm]:
    """Arms from `--arms a,b` and `--arm c`, in order, each name once; without any: shipped, glibc, ours, and the
    peers found.
    """
    specs = texts or default_specs(as_shipped)
    arms: list[Arm] = []
    for spec in specs:
        arm = parse(spec, as_shipped)
        if any(arm.name == other.name for other in arms):
            raise WrongUse(f"arm '{arm.name}' is given twice: name one of them, for example other={_label(spec)[1]}")
        arms.append(arm)
        if arm.name == CONTROL:
            raise WrongUse(f"no arm can be called '{CONTROL}': that is what the reference's second run is called")
    return arms


def default_specs(as_shipped: str) -> list[str]:
    first = [GLIBC] if as_shipped == GLIBC else [AS_SHIPPED, GLIBC]
    ours = [a.name for a in catalogue.allocators() if a.name == "hslab" and a.library is not None]
    return first + ours + [p.name for p in peers.peers() if p.name != as_shipped]


def split(text: str) -> list[str]:
    """`a,b:k=v,k2=v2,c` into arms: a piece that is a bare KEY=VALUE belongs to the configuration before it."""
    pieces: list[str] = []
    for piece in text.split(","):
        if pieces and _continues(piece, pieces[-1]):
            pieces[-1] += "," + piece
        else:
            pieces.append(piece)
    return [p.strip() for p in pieces if p.strip()]


def _continues(piece: str, before: str) -> bool:
    key, equals, value = piece.partition("=")
    inside = ":" in before and not before.endswith(":")
    return bool(inside and equals and key.replace("_", "").isalnum() and not value.startswith(("env:", "cmd:")))


def parse(spec: str, as_shipped: str) -> Arm:
    name, what = _label(spec)
    if what.startswith("env:"):
        return Arm(name or what[4:], "environment", env=environment(what[4:]))
    if what.startswith("cmd:"):
        try:
            argv = shlex.split(what[4:])
        except ValueError as e:
            raise WrongUse(f"arm '{spec}': {str(e).lower()}: expected a program as a shell reads it, for example other=cmd:./build-b/prog") from None
        if not argv:
            raise WrongUse(f"arm '{spec}' names no program: expected for example other=cmd:./build-b/prog")
        elf.resolve(argv[0])
        return Arm(name or Path(argv[0]).name, "command", argv=argv)
    base, colon, settings = what.partition(":")
    arm = _allocator(base, as_shipped)
    arm.name = name or what
    if colon:
        arm.env |= _settings(arm, base, settings)
    return arm


def _label(spec: str) -> tuple[str | None, str]:
    """`NAME=rest`, where NAME is not a path and the rest is not simply a setting."""
    head, equals, rest = spec.partition("=")
    if equals and head and not set(head) & set("/:"):
        return head, rest
    return None, spec


def _allocator(base: str, as_shipped: str) -> Arm:
    if base == AS_SHIPPED:
        return Arm(base, "shipped")
    if base in (GLIBC, "system"):
        # Where the program brings another allocator, glibc serves only if it stands in front of that one.
        return Arm(base, "glibc", None if as_shipped == GLIBC else elf.loader_cache().get("libc.so.6"))
    if base.endswith(".toml"):
        from mortise import building

        return Arm(base, "library", str(building.cached(Path(base))))
    if is_path(base):
        return Arm(base, "library", library(base))
    if base in (a.name for a in catalogue.allocators()):
        return Arm(base, "ours", str(catalogue.built(base)))
    peer = peers.named(base)
    if peer is not None:
        return Arm(base, "peer", str(peer.library))
    known = [AS_SHIPPED, GLIBC, *(a.name for a in catalogue.allocators()), *(p.name for p in peers.peers())]
    raise unknown("allocator", base, known, HINT)


def is_path(base: str) -> bool:
    """Whether an allocator is given as a file, or by the name that the loader knows it by."""
    return "/" in base or base.endswith(".so") or ".so." in base


def library(base: str) -> str:
    """The file of an allocator that is given so. The loader would only mumble about another one, and run the program on glibc."""
    path = Path(base)
    if not path.is_file() and "/" not in base and base in elf.loader_cache():
        path = Path(elf.loader_cache()[base])
    if not path.is_file():
        raise WrongUse(
            f"no library '{base}': expected a path to a .so that exists, or a name that 'mortise list' shows"
        )
    expected = "expected an allocator's .so, or a name that 'mortise list' shows"
    try:
        image = elf.image(path) if elf.is_shared_object(path) else None
    except (CannotWork, OSError):
        image = None
    if image is None:
        raise WrongUse(f"'{base}' is not a shared library: {expected}")
    if image.is_program:
        raise WrongUse(f"'{base}' is a program, which the loader does not preload: {expected}")
    if "malloc" not in image.own:
        raise WrongUse(f"'{base}' defines no malloc that a program could call: {expected}")
    return preloadable(str(path.absolute()))


def is_ours(library: str | None) -> bool:
    """Whether a library is an allocator of this project: one that ships, or one that 'mortise build' made."""
    return library is not None and "mortise_descriptor" in elf.image(Path(library)).own


def _settings(arm: Arm, base: str, text: str) -> dict[str, str]:
    """An allocator's own settings: keys of ours go into MORTISE_CONF, KEY=VALUE in capitals is an environment
    variable.
    """
    pairs = environment(text)
    if is_ours(arm.library) and not all(key.isupper() for key in pairs):
        return {"MORTISE_CONF": conf.joined(os.environ.get("MORTISE_CONF"), conf.checked(text))}
    if any(not key.isupper() for key in pairs):
        raise WrongUse(
            f"'{base}:{text}': settings of '{base}' are environment variables, for example {base}:MALLOC_ARENA_MAX=1"
        )
    return pairs


def environment(text: str) -> dict[str, str]:
    """`K=V` or `K=V,K2=V2`; a piece without a capital key continues the value before it (OCAMLRUNPARAM=a=2,o=80)."""
    found: dict[str, str] = {}
    last = None
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        if last is not None and not (equals and key.replace("_", "").isalnum() and key.isupper()) and last.isupper():
            found[last] += "," + piece
        elif equals and key:
            last = key
            found[key] = value
        else:
            raise WrongUse(f"'{piece}' is not KEY=VALUE: expected for example env:MALLOC_ARENA_MAX=1")
    conf.checked(found.get("MORTISE_CONF", ""))
    for name in found.get("LD_PRELOAD", "").replace(":", " ").split():
        if "/" in name and "$" not in name and not Path(name).is_file():  # else the loader looks for it, in places of its own
            raise WrongUse(f"no library '{name}' for LD_PRELOAD, which the loader would pass over: expected a path to a .so that exists")
    return found


def preload(*libraries: str | None, had: str | None = None) -> str:
    """What LD_PRELOAD should be: ours first, then what the user had, or what an arm or a sweep sets it to instead."""
    before = os.environ.get("LD_PRELOAD") if had is None else had
    return ":".join([preloadable(lib) for lib in libraries if lib] + [lib for lib in (before,) if lib])


def preloadable(library: str) -> str:
    """The path itself. Of one that LD_PRELOAD cannot hold the loader would only mumble, and run the program on glibc."""
    if set(library) & set(" :"):
        raise WrongUse(f"'{library}' cannot be preloaded: a space or a colon ends a name in LD_PRELOAD: expected a path without them")
    return library


def served_by(arm: Arm, library: str) -> bool | None:
    """Whether `library`, which a probe found to serve malloc, is the one this arm promises; None where it promises
    none.
    """
    if arm.kind in ("shipped", "environment", "command"):
        return None
    if arm.kind == "glibc":
        return peers.family(library) == "glibc"
    return arm.library is not None and os.path.realpath(library) == os.path.realpath(arm.library)
