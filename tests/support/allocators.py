"""The allocators that were built, and how a program is run on one of them.

Tests are parametrised over `NAMES`, so an allocator that ships later is covered without a word.
"""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MORTISE_BUILD", ROOT / "build"))
EMULATOR = os.environ.get("MORTISE_EMULATOR", "").split()  # runs the programs of a build for another machine
WATCHDOG_S = 600  # turns a hang into a failure, nothing else


def _read() -> dict[str, dict]:
    """Descriptions by name. Nothing built is an error here, not an empty list of tests."""
    found = {}
    for path in sorted((BUILD / "share/mortise").glob("*.json")):
        card = json.loads(path.read_text())
        if str(card.get("schema", "")).startswith("mortise.allocator/"):
            found[card["name"]] = card
    if not found:
        raise RuntimeError(f"no allocator is described in {BUILD}/share/mortise: run make build first")
    return found


CARDS = _read()
NAMES = list(CARDS)


def has_layer(name: str, layer: str) -> bool:
    return any(one["name"] == layer for one in CARDS[name]["layers"])


CORE_CACHED = [n for n in NAMES if has_layer(n, "CoreCache")]
WAYS = [(n, rseq) for n in NAMES for rseq in ((True, False) if n in CORE_CACHED else (True,))]
WAY_IDS = [n if rseq else f"{n}-fallback" for n, rseq in WAYS]


def library(name: str) -> Path:
    return BUILD / "lib" / f"libmortise-{name}.so"


def program(kind: str, name: str) -> Path:
    """A helper of tests/KIND, built by CMake."""
    path = BUILD / "tests" / kind / name
    assert path.exists(), f"{path} is not built: run make build"
    return path


@dataclass
class Ran:
    """What a run left behind; `status` is negative for a signal."""

    status: int
    out: str
    err: str

    def ok(self) -> "Ran":
        assert self.status == 0, f"exit status {self.status}\n{self.out}\n{self.err}"
        return self


def environment(name: str | None, rseq: bool = True, preload: tuple = (), **more: str) -> dict[str, str]:
    """The environment in which a program runs on allocator `name`; None runs it on libc."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MORTISE_", "LD_", "GLIBC_TUNABLES"))}
    libraries = [*([str(library(name))] if name else []), *map(str, preload)]
    if libraries:
        clean["LD_PRELOAD"] = ":".join(libraries)
    if not rseq:
        clean["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
    return clean | more


def until_loaded(process: subprocess.Popen) -> None:
    """Waits until a process that was just started has its allocator: before, it has none that anybody could read."""
    while "libmortise-" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None, f"it ended with {process.returncode}"
        time.sleep(0.01)


def run(command, name: str | None = None, *, rseq: bool = True, preload: tuple = (), timeout: float = WATCHDOG_S,
        env: dict[str, str] | None = None, **more) -> Ran:
    """Runs a command on an allocator, to its end."""
    words, clean = [str(part) for part in command], environment(name, rseq, preload, **(env or {}))
    if EMULATOR and Path(words[0]).is_relative_to(BUILD):  # a program of this machine: only what it runs is preloaded
        inside = {key: clean.pop(key) for key in ("LD_PRELOAD", "GLIBC_TUNABLES") if key in clean}
        words = [*EMULATOR, *(word for key, value in inside.items() for word in ("-E", f"{key}={value}")), *words]
    done = subprocess.run(words, env=clean, capture_output=True, text=True, timeout=timeout, **more)
    return Ran(done.returncode, done.stdout, done.stderr)
