"""Allocators of others that this machine has, usable as arms by name."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from mortise import elf

SONAMES = {
    "mimalloc": r"libmimalloc(-secure)?\.so\.\d.*",
    "jemalloc": r"libjemalloc\.so\.\d.*",
    "tcmalloc": r"libtcmalloc(_minimal)?\.so\.\d.*",
    "tbbmalloc": r"libtbbmalloc_proxy\.so\.\d.*",
    "hardened_malloc": r"libhardened_malloc\.so(\.\d.*)?",
    "snmalloc": r"libsnmallocshim\.so(\.\d.*)?",
    "rpmalloc": r"librpmalloc(wrap)?\.so(\.\d.*)?",
    "scudo": r"libscudo\.so(\.\d.*)?|libclang_rt\.scudo_standalone.*\.so",
    "mesh": r"libmesh\.so(\.\d.*)?",
}


@dataclass(frozen=True)
class Peer:
    name: str
    library: Path


def peers() -> list[Peer]:
    """Found in the loader's cache or in the usual folders; of several of one name the plainest."""
    candidates = dict(elf.loader_cache())
    for folder in _folders():
        for path in sorted(folder.glob("lib*.so*")) if folder.is_dir() else []:
            candidates.setdefault(path.name, str(path))
    found = []
    for name, pattern in SONAMES.items():
        matching = sorted((n for n in candidates if re.fullmatch(pattern, n)), key=lambda n: (len(n), n))
        if matching:
            found.append(Peer(name, Path(candidates[matching[0]])))
    return found


def named(name: str) -> Peer | None:
    return next((peer for peer in peers() if peer.name == name), None)


def family(library: str) -> str | None:
    """Which known allocator a library file is, by its name."""
    file = Path(library).name
    for name, pattern in SONAMES.items():
        if re.fullmatch(pattern, file):
            return name
    if match := re.fullmatch(r"libmortise-(.+?)\.so(\.\d.*)?", file):
        return match[1]
    return "glibc" if re.fullmatch(r"libc\.so\.6|libc-2.*\.so", file) else None


def _folders() -> list[Path]:
    machine = os.uname().machine
    return [Path(f"/usr/lib/{machine}-linux-gnu"), Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
