"""Who stops a long measurement gets what was measured: if this failed, an hour of rounds would be lost with the last of them."""

import json
import signal
import subprocess
import sys

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


def test_a_run_without_a_round_says_so(programs, tmp_path):
    running = started(programs, "--json", str(tmp_path / "out.json"))
    wait_for(running, "round 1 of 100000")
    running.send_signal(signal.SIGTERM)
    table, said = running.communicate()
    assert running.returncode == 1 and not table
    assert "stopped before the first round was over" in said and not (tmp_path / "out.json").exists()
