"""Which libraries the programs run on: every one that was built, those of --allocator, or files of --library."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from programs.catalogue import PROGRAMS, Program
from programs.proof import Proof
from programs.stage import Stage, Step

ROOT = Path(__file__).resolve().parents[2]
FIRST = "hslab"  # the default allocator runs every program, always
PARTS = 5        # every other one runs at least a fifth of them unless --all-programs is given


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("programs", "real programs under preload (tests/programs)")
    group.addoption("--allocator", action="append", metavar="NAME", help="only this allocator, with every program")
    group.addoption("--library", action="append", metavar="PATH", help="this preloadable library, with every program")
    group.addoption("--all-programs", action="store_true", help="every program on every allocator")


@dataclass(frozen=True)
class Subject:
    """A library under test, and the programs it is to run."""

    name: str
    library: Path
    programs: tuple[str, ...]


def built_allocators() -> list[str]:
    """The names of what was built, the default first."""
    names = sorted(path.stem for path in (ROOT / "build/share/mortise").glob("*.json"))
    return sorted(names, key=lambda name: name != FIRST)


def share(turn: int, parts: int) -> tuple[str, ...]:
    """Every `parts`-th program beginning with number `turn`: `parts` allocators in turn have run them all."""
    return tuple(name for number, name in enumerate(PROGRAMS) if number % parts == turn % parts)


def chosen_subjects(config: pytest.Config) -> list[Subject]:
    every = tuple(PROGRAMS)
    files = [Path(path).resolve() for path in config.getoption("--library", default=None) or []]
    names = config.getoption("--allocator", default=None) or []
    if files or names:
        return [Subject(name, ROOT / f"build/lib/libmortise-{name}.so", every) for name in names] + \
               [Subject(path.name.split(".")[0], path, every) for path in files]
    built = built_allocators() or [FIRST]
    parts = 1 if config.getoption("--all-programs", default=False) else min(PARTS, max(1, len(built) - 1))
    return [Subject(name, ROOT / f"build/lib/libmortise-{name}.so", every if turn == 0 else share(turn - 1, parts))
            for turn, name in enumerate(built)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"program", "subject"} <= set(metafunc.fixturenames):
        pairs = [pytest.param(PROGRAMS[name], subject, id=f"{name}-{subject.name}")
                 for name in PROGRAMS for subject in chosen_subjects(metafunc.config) if name in subject.programs]
        metafunc.parametrize(("program", "subject"), pairs)


class Theatre:
    """Plays programs, each in the same room every time, because a path in an output must not make a difference."""

    def __init__(self, home: Path):
        self.home = home
        self.references: dict[str, list[Step]] = {}
        (home / "shelf").mkdir()

    def library(self, subject: Subject) -> Path:
        """A copy under the same name where every user may read it: servers run as users who may not enter the build."""
        if not subject.library.is_file():
            pytest.fail(f"{subject.library} does not exist; build it with: make build", pytrace=False)
        folder = self.home / "lib"
        folder.mkdir(exist_ok=True)
        copy = folder / subject.library.name
        if not copy.exists():
            shutil.copy(subject.library, copy)
            copy.chmod(0o755)
        return copy

    def play(self, program: Program, library: Path | None) -> list[Step]:
        """Runs the program once and returns what it did; with a library, proves that every process of it had it."""
        room, traces = self.home / program.name, self.home / "traces"
        stage = Stage(room, library, Proof(traces), self.home / "shelf")
        try:
            program.play(stage)
            stage.check_proof()
        finally:
            shutil.rmtree(room)
            shutil.rmtree(traces)
        return stage.transcript

    def reference(self, program: Program) -> list[Step]:
        """What the program does without preload; run once a session."""
        if program.name not in self.references:
            self.references[program.name] = self.play(program, None)
        return self.references[program.name]


@pytest.fixture(scope="session")
def theatre() -> Iterator[Theatre]:
    # A short path that every user may enter: the address of a Unix socket has room for 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="mortise-", dir="/tmp"))
    home.chmod(0o755)
    yield Theatre(home)
    shutil.rmtree(home)
