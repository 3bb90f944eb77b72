"""The benchmark's programs, built once, and its modules as its runner imports them."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.allocators import BUILD, ROOT

BENCH = ROOT / "bench"


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where the workloads lie. The runner builds them with the same two commands."""
    tree, place = BUILD / "bench-cmake", BUILD / "bench-bin"
    for command in (["cmake", "-S", BENCH, "-B", tree, "-G", "Ninja", f"-DMORTISE_BENCH_BIN={place}"], ["ninja", "-C", tree, "bench_workloads"]):
        done = subprocess.run(command, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return place


@pytest.fixture(scope="session")
def bench() -> SimpleNamespace:
    names = [source.stem for source in BENCH.glob("*.py")]
    aside = {name: sys.modules.pop(name) for name in names if name in sys.modules}  # tests has a `programs`, too
    sys.path.insert(0, str(BENCH))
    try:
        import peers
        import report
        import run
        import session
        import stats
    finally:
        sys.path.remove(str(BENCH))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(aside)
    return SimpleNamespace(peers=peers, report=report, run=run, session=session, stats=stats)


@pytest.fixture(scope="session")
def broken(tmp_path_factory) -> Path:
    """An allocator that gives a block twice."""
    library = tmp_path_factory.mktemp("broken") / "libbroken.so"
    done = subprocess.run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", Path(__file__).parent / "broken.c", "-o", library], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return library
