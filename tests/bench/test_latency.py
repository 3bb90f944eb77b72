"""Who stops a long measurement gets what was measured: if this failed, an hour of rounds would be lost with the last of them."""

import importlib.util
import json
import signal
import subprocess
import sys

import pytest

from .conftest import BENCH

ARMS = ["wfslab", "glibc"]


def started(programs, *more):
    assert (programs / "latency").exists()
    command = [sys.executable, BENCH / "latency/run.py", "--no-setup", "--arms", ",".join(ARMS), "--rounds", "100000", *more]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(running, words: str) -> None:
    for line in running.stderr:
        if words in line:
            return
    raise AssertionError(f"never said '{words}'")


def test_the_rounds_that_were_over_are_reported(programs, tmp_path):
    out = tmp_path / "out.json"
    running = started(programs, "--operations", "20000", "--reserve", "8", "--json", str(out))
    wait_for(running, "round 3 of 100000")
    running.send_signal(signal.SIGTERM)
    table, said = running.communicate()
    assert running.returncode == 130, said
    document = json.loads(out.read_text())
    assert document["rounds"] >= 2 and f"stopped: {document['rounds']} of 100000 rounds were over" in said
    assert [len(document["arms"][name]["line_ns"]) for name in ARMS] == [document["rounds"]] * 2
    assert all(name in table for name in ARMS)


@pytest.mark.parametrize("seen, known", [
    ([54, 61, 63, 60, 222, 218, 132, 59, 241, 208], {"near": 63, "far": 241}),  # one changed while it was measured
    ([54, 61, 63, 60, 70, 72, 64, 59, 55, 300], {"all": 300}),                  # a single one is no place
    ([0, 0], {"all": 0}), ([30], {"all": 30})])
def test_near_and_far_cores_are_told_apart(bench, seen, known):
    spec = importlib.util.spec_from_file_location("bench_latency", BENCH / "latency/run.py")
    latency = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        for name in ("peers", "run", "session", "stats"):
            patch.setitem(sys.modules, name, getattr(bench, name))
        spec.loader.exec_module(latency)
    assert latency.distances({"a": [{"line_ns": seen}]}) == known


def test_a_run_without_a_round_says_so(programs, tmp_path):
    running = started(programs, "--json", str(tmp_path / "out.json"))
    wait_for(running, "round 1 of 100000")
    running.send_signal(signal.SIGTERM)
    table, said = running.communicate()
    assert running.returncode == 1 and not table
    assert "stopped before the first round was over" in said and not (tmp_path / "out.json").exists()
