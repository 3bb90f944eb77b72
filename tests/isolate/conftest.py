"""Builds the small programs of this folder once a session and runs them with ordinary and with isolated threads."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNTIME = Path(os.environ.get("MORTISE_ISOLATE", ROOT / "build/lib/libmortise-isolate.so"))
SERVES = {"hslab", "hslab_hardened", "iamalloc", "wfslab", "tlsfcc"}
SECONDS_MAX = 600    # a watchdog: turns a hang into a failure

collect_ignore_glob = [] if platform.machine() == "x86_64" else ["test_*.py"]


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def said(self):
        """The runtime's own lines."""
        return [line for line in self.err.splitlines() if line.startswith("mortise threads:")]


def build(source, target, extra=()):
    compiler = ["g++", "-std=c++20"] if source.suffix == ".cpp" else ["gcc", "-std=gnu17"]
    subprocess.run([*compiler, "-O1", "-g", "-w", "-pthread", str(source), "-o", str(target), *extra], check=True)
    return target


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """program(name, *compiler_options): the built program of programs/name."""
    folder = tmp_path_factory.mktemp("isolate")
    built = {}

    def get(name, *options):
        if (name, options) not in built:
            source = next((HERE / "programs").glob(name + ".c*"))
            built[name, options] = build(source, folder / f"{name}{len(built)}", options)
        return built[name, options]

    return get


@pytest.fixture(scope="session")
def runtime():
    assert RUNTIME.exists(), f"{RUNTIME} is not built: run make build"
    return RUNTIME


def run(command, preload=(), env=None, **more):
    """Runs a command in a session of its own; after the watchdog's time the test fails."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MORTISE", "LD_"))} | (env or {})
    if preload:
        environment["LD_PRELOAD"] = ":".join(map(str, preload))
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True,
                          timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, **more)
    return Ran(done.returncode, done.stdout, done.stderr)


def allocators(runtime):
    """What the allocator matrix runs on: ours beside the runtime, and the peers of the package lists."""
    built = sorted(runtime.parent.glob("libmortise-*.so"))
    ours = [p for p in built if p.stem.removeprefix("libmortise-") in SERVES]
    peers = [p for name in ("libmimalloc.so.2", "libjemalloc.so.2") for p in Path("/usr/lib").glob(f"*/{name}")]
    return [*ours, *peers]


@pytest.fixture
def isolated(runtime):
    """isolated(command, ...): runs with isolated threads."""
    def start(command, preload=(), **more):
        return run(command, (runtime, *preload), **more)
    start.runtime = runtime
    return start


@pytest.fixture
def same_both_ways(isolated):
    """Runs with ordinary threads, then isolated `times` times; output and status must be the same each time."""
    def check(command, times=3, **more):
        ordinary = run(command, **more)
        for _ in range(times):
            apart = isolated(command, **more)
            assert (apart.status, apart.out) == (ordinary.status, ordinary.out), apart.err
        return apart
    return check
