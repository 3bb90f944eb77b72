"""`mortise doctor`: will a replacement allocator work for this program, and what would it serve? Asked before
anything runs.
"""

import fcntl
import os
import platform
import re
import stat
import termios
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path

from mortise import elf, formats, peers
from mortise.errors import CannotWork

BLOCKS, WARNS, NOTES, GOOD = "blocks", "warns", "notes", "good"
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "riscv64": "EM_RISCV"}


@dataclass(frozen=True)
class Finding:
    weight: str
    code: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    program: Path
    runs: Path
    as_shipped: str
    findings: list[Finding]

    @property
    def blocked(self) -> Finding | None:
        return next((f for f in self.findings if f.weight == BLOCKS), None)

    def demand(self) -> None:
        """Refuses, with the reason, where a preload cannot work."""
        if self.blocked is not None:
            raise CannotWork(f"'{self.program}' {self.blocked.text}")

    def document(self) -> dict:
        return {
            "schema": formats.DOCTOR,
            "program": str(self.program),
            "runs": str(self.runs),
            "as_shipped": self.as_shipped,
            "served": self.blocked is None,
            "findings": [asdict(f) for f in self.findings],
        }


def diagnose(program: str, deep: bool = True) -> Diagnosis:
    """Reads the program's files; `deep` follows its libraries too, which `mortise run` does not wait for."""
    path = elf.resolve(program)
    image, runs = elf.program_image(path)
    findings = privilege(path) + ([] if runs == path else privilege(runs))
    if runs != path:
        findings.append(Finding(NOTES, "script", f"is a script; '{runs}' is what runs and what is served"))
    findings += shape(image)
    libraries = elf.libraries(image) if deep and image.dynamic else []
    findings += allocators(image, libraries) + surroundings(image, libraries) + settings_of_others() + habits(runs)
    if not any(f.weight == BLOCKS for f in findings):
        findings.append(
            Finding(GOOD, "served", "is dynamic and takes malloc from the loader: a replacement will serve it")
        )
    return Diagnosis(path, runs, shipped(image, libraries), findings)


def privilege(path: Path) -> list[Finding]:
    mode = path.stat().st_mode
    if mode & 0o6000:
        kind = "set-user-id" if mode & 0o4000 else "set-group-id"
        return [
            Finding(
                BLOCKS, "set-id", f"is {kind}: the loader ignores LD_PRELOAD for it; link the allocator in instead"
            )
        ]
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return []
    return [
        Finding(
            BLOCKS,
            "capabilities",
            "carries file capabilities: the loader ignores LD_PRELOAD for it; link the allocator in instead",
        )
    ]


def shape(image: elf.Image) -> list[Finding]:
    """Static, foreign and differently built programs never meet a preloaded library."""
    if MACHINES.get(platform.machine(), image.machine) != image.machine or image.bits != 64:
        return [
            Finding(
                BLOCKS,
                "machine",
                f"is built for another machine ({image.machine}, {image.bits} bits): the libraries here do not fit it",
            )
        ]
    if not image.interpreter:
        return [
            Finding(
                BLOCKS,
                "static",
                "is statically linked: preloading cannot work; link the allocator in when building it",
            )
        ]
    if "ld-musl" in image.interpreter:
        return [
            Finding(BLOCKS, "musl", "runs on musl: these libraries are built for glibc; build mortise on musl for it")
        ]
    return []


def allocators(image: elf.Image, libraries: list[elf.Image]) -> list[Finding]:
    found = []
    if image.own & {"malloc", "free"}:
        found.append(
            Finding(BLOCKS, "own-malloc", "defines malloc itself: its own one is found before any preloaded one")
        )
    for library in libraries:
        family = peers.family(library.path.name)
        if family and family != "glibc":
            found.append(
                Finding(NOTES, "links-allocator", f'links {library.path.name}: "as shipped" is {family}, not glibc')
            )
        elif library.own & {"malloc"} and family != "glibc":
            found.append(
                Finding(
                    NOTES,
                    "library-malloc",
                    f'links {library.path.name}, which defines malloc: "as shipped" is not glibc',
                )
            )
    return found + private(image, {peers.family(library.path.name) for library in libraries})


# What only one allocator answers: functions, by which programs ask it, and variables, by which users set it.
FUNCTIONS = {
    "jemalloc": r"mallctl\w*|[mnrsx]allocx|s?dallocx|malloc_stats_print|je_\w+",
    "mimalloc": r"mi_\w+",
    "tcmalloc": r"tc_\w+|MallocExtension_\w+|_ZN15MallocExtension\w+",
}
VARIABLES = {
    "jemalloc": r"MALLOC_CONF",
    "mimalloc": r"MIMALLOC_\w+",
    "tcmalloc": r"TCMALLOC_\w+",
    "glibc": r"MALLOC_(ARENA_MAX|ARENA_TEST|CHECK_|MMAP_MAX_|MMAP_THRESHOLD_|PERTURB_|TOP_PAD_|TRIM_THRESHOLD_)",
}
BUILT_IN = {"jemalloc": ("_rjem_malloc", "je_malloc"), "mimalloc": ("mi_malloc", "mi_malloc_aligned")}  # as the Rust crates have them


def private(image: elf.Image, linked: set[str | None]) -> list[Finding]:
    """Calls that no other allocator can answer, because its library or the program itself has them."""
    found = []
    for family, names in FUNCTIONS.items():
        # A weak name that nobody defines is one that the program looks for and does without.
        asked = image.imports if family in linked else image.imports - image.weak
        used = sorted(name for name in asked if re.fullmatch(names, name))
        if used:
            more = f" and {len(used) - 4} more" if len(used) > 4 else ""
            text = f"calls {family}'s own {', '.join(used[:4])}{more}: these stay with {family} under any other allocator"
            found.append(Finding(WARNS, "private-api", text))
    own = elf.defined(image.path, [name for names in BUILT_IN.values() for name in names])
    for family, names in BUILT_IN.items():
        if name := next((name for name in names if name in own), None):
            text = f"has {family} built in under names of its own ({name}): what calls these stays there under any other allocator"
            found.append(Finding(WARNS, "built-in", text))
    return found


def settings_of_others() -> list[Finding]:
    """Who comes from another allocator has its settings in the environment still."""
    found = []
    for family, names in VARIABLES.items():
        if given := sorted(name for name in os.environ if re.fullmatch(names, name)):
            are, them = ("is", "it") if len(given) == 1 else ("are", "them")
            found.append(Finding(NOTES, "settings", f"{', '.join(given)} {are} set: nobody but {family} reads {them}"))
    return found


def surroundings(image: elf.Image, libraries: list[elf.Image]) -> list[Finding]:
    found = []
    names = dict.fromkeys([Path(n).name for n in image.needed] + [library.path.name for library in libraries])
    sanitizers = [n for n in names if n.startswith(("libasan", "libtsan", "libmsan", "liblsan", "libhwasan"))]
    built_in = image.own & {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"}
    if sanitizers or built_in:
        found.append(
            Finding(
                BLOCKS,
                "sanitizer",
                f"is built with a sanitizer ({', '.join(sanitizers or sorted(built_in))}), which brings its own malloc",
            )
        )
    if "dlmopen" in image.imports:
        found.append(
            Finding(
                WARNS,
                "dlmopen",
                "uses dlmopen: another namespace has its own malloc unless the allocator masks that (ours do)",
            )
        )
    elif "dlopen" in image.imports:
        found.append(
            Finding(
                NOTES,
                "dlopen",
                "opens libraries at run time: opened with RTLD_DEEPBIND they miss the allocator; ours clear that flag",
            )
        )
    if any(n.startswith("libseccomp") for n in names) or "seccomp_load" in image.imports:
        found.append(
            Finding(
                WARNS,
                "seccomp",
                "filters its system calls (seccomp): an allocator that needs one it forbids is killed; try it first",
            )
        )
    if os.environ.get("LD_PRELOAD"):
        found.append(
            Finding(
                NOTES,
                "preloaded",
                f"LD_PRELOAD is already set ({os.environ['LD_PRELOAD']}) and is kept behind the allocator",
            )
        )
    return found


def waiting_input() -> list[Finding]:
    """Something stands in this process's standard input, a file or what a pipe holds, which no run would read."""
    try:
        told, count = os.fstat(0), array("i", [0])
        there = stat.S_ISREG(told.st_mode) and told.st_size > os.lseek(0, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(told.st_mode):
            there = fcntl.ioctl(0, termios.FIONREAD, count) == 0 and count[0] > 0
    except OSError:  # closed
        return []
    text = "reads nothing of the standard input that is there: name a file with --stdin, from which every run begins"
    return [Finding(WARNS, "stdin", text)] if there else []


def habits(runs: Path) -> list[Finding]:
    """Programs known to sit on a pool of their own, which hides most requests from any malloc."""
    name = runs.resolve().name
    own = {"python": ("PYTHONMALLOC", "malloc"), "php": ("USE_ZEND_ALLOC", "0")}
    for prefix, (variable, value) in own.items():
        if name.startswith(prefix) and os.environ.get(variable) != value:
            return [
                Finding(
                    NOTES,
                    "own-pools",
                    f"serves small requests from its own pools: set {variable}={value} to let malloc serve them",
                )
            ]
    return []


def shipped(image: elf.Image, libraries: list[elf.Image]) -> str:
    """Which allocator serves the program when nothing is preloaded."""
    if image.own & {"malloc"} or not image.interpreter:
        return "its own"
    for library in libraries:
        if library.own & {"malloc"}:
            return peers.family(library.path.name) or library.path.name
    return "musl" if "ld-musl" in image.interpreter else "glibc"
