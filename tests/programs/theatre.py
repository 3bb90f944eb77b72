"""Which libraries are tested, and the place where programs run on them."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from programs.catalogue import PROGRAMS, Program
from programs.proof import Proof
from programs.stage import Failed, Stage, Step

ROOT = Path(__file__).resolve().parents[2]
FIRST = "hslab"  # the default allocator runs every program, always
PARTS = 5        # every other one runs at least a fifth of them unless all are asked for


@dataclass(frozen=True)
class Subject:
    """A library under test, and the programs it is to run."""

    name: str
    library: Path
    programs: tuple[str, ...] = tuple(PROGRAMS)


def built_allocators() -> list[str]:
    """The names of what was built, the default first; the default alone if nothing was."""
    found = [json.loads(path.read_text()) for path in sorted((ROOT / "build/share/mortise").glob("*.json"))]
    names = [each["name"] for each in found if each["schema"].startswith("mortise.allocator/")]
    return sorted(names, key=lambda name: name != FIRST) or [FIRST]


def built(name: str, programs: tuple[str, ...] = tuple(PROGRAMS)) -> Subject:
    return Subject(name, ROOT / f"build/lib/libmortise-{name}.so", programs)


def share(turn: int, parts: int) -> tuple[str, ...]:
    """Every `parts`-th program beginning with number `turn`: `parts` allocators in turn have run them all."""
    return tuple(name for number, name in enumerate(PROGRAMS) if number % parts == turn % parts)


def chosen_subjects(names: list[str], files: list[str], every_program: bool) -> list[Subject]:
    """What was asked for by name or file, with every program; else what was built, and its shares of the programs."""
    if names or files:
        paths = [Path(path).resolve() for path in files]
        return [built(name) for name in names] + [Subject(path.name.split(".")[0], path) for path in paths]
    found = built_allocators()
    parts = 1 if every_program else min(PARTS, max(1, len(found) - 1))
    return [built(name) if turn == 0 else built(name, share(turn - 1, parts)) for turn, name in enumerate(found)]


class Theatre:
    """Plays programs, each in the same room every time, because a path in an output must not make a difference."""

    def __init__(self, home: Path, settings: dict[str, str]):
        self.home = home
        self.settings = settings
        self.references: dict[str, list[Step]] = {}
        (home / "shelf").mkdir()

    def library(self, subject: Subject) -> Path:
        """A copy under the same name where every user may read it: servers run as users who may not enter the build."""
        if not subject.library.is_file():
            raise Failed(f"{subject.library} does not exist; build it with: make build")
        folder = self.home / "lib"
        folder.mkdir(exist_ok=True)
        copy = folder / subject.library.name
        if not copy.exists():
            shutil.copy(subject.library, copy)
            copy.chmod(0o755)
        return copy

    @contextlib.contextmanager
    def stage(self, name: str, library: Path | None) -> Iterator[Stage]:
        """A stage for one run; at its end, with a library, every process of it must prove that it had it."""
        room, traces = self.home / name, self.home / "traces"
        try:
            stage = Stage(room, library, Proof(traces), self.home / "shelf", self.settings)
            yield stage
            stage.check_proof()
        finally:
            shutil.rmtree(room, ignore_errors=True)
            shutil.rmtree(traces, ignore_errors=True)

    def play(self, program: Program, library: Path | None) -> list[Step]:
        """Runs the program once and returns what it did."""
        with self.stage(program.name, library) as stage:
            program.play(stage)
        return stage.transcript

    def reference(self, program: Program) -> list[Step]:
        """What the program does without preload; run once a session."""
        if program.name not in self.references:
            self.references[program.name] = self.play(program, None)
        return self.references[program.name]


@contextlib.contextmanager
def open_theatre(settings: dict[str, str] | None = None) -> Iterator[Theatre]:
    """A theatre whose libraries are preloaded with `settings` in the environment.

    Its path is short and open to every user: the address of a Unix socket has room for 107 bytes.
    """
    home = Path(tempfile.mkdtemp(prefix="mortise-", dir="/tmp"))
    home.chmod(0o755)
    try:
        yield Theatre(home, settings or {})
    finally:
        shutil.rmtree(home, ignore_errors=True)
