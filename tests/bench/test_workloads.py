"""Every workload of the benchmark works on every allocator, small, and finds an allocator that does not.

If this failed, the benchmark would time a program that does something else on each allocator, or nothing.
"""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.allocators import NAMES, WATCHDOG_S, environment, library

from .conftest import BENCH

WORKLOADS = sorted(source.stem for source in (BENCH / "workloads").glob("*.cpp"))
OPERATIONS = {"words": 40_000, "sharing_active": 400_000, "sharing_passive": 400_000, "large": 40}
THREADS = 3


def run(program, threads: int, operations: int, preload: tuple = (), name: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([program, "--threads", str(threads), "--ops", str(operations)], env=environment(name, preload=preload), text=True,
                          capture_output=True, timeout=WATCHDOG_S)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_allocator_gives_the_same_answer(programs, workload):
    operations = OPERATIONS.get(workload, 6_000) * THREADS
    truth = json.loads(run(programs / workload, THREADS, operations).stdout)
    assert truth["workload"] == workload and truth["ops"] == operations and truth["threads"] == THREADS
    with ThreadPoolExecutor(4) as some:
        results = dict(zip(NAMES, some.map(lambda name: run(programs / workload, THREADS, operations, name=name), NAMES)))
    for name, done in results.items():
        assert done.returncode == 0, f"{name}: {done.stderr}"
        answer = json.loads(done.stdout)
        assert answer.pop("malloc") == str(library(name)), "another library served"
        assert answer == {key: value for key, value in truth.items() if key != "malloc"}, name


@pytest.mark.parametrize("workload", ["mix", "churn", "batches", "drift", "grow", "aligned", "lifetimes", "handoff"])
def test_a_block_given_twice_is_found(programs, broken, workload):
    done = run(programs / workload, 2, 20_000, preload=(broken,))
    assert done.returncode != 0, done.stdout


def test_bad_options_are_refused(programs):
    done = run(programs / "mix", 0, 1)
    assert done.returncode == 2 and "expected --threads N or --ops N" in done.stderr
