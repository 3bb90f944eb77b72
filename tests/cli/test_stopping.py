"""SIGTERM or SIGHUP in the middle of a measuring: nothing of it may go on, or lie about, and what is finished is told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import ROOT


def until(there, what):
    """A wait for what another process does; its end is that of a broken test, no time that anything must keep to."""
    for _ in range(6000):
        if there():
            return
        time.sleep(0.01)
    pytest.fail(f"never happened: {what}")


@pytest.fixture
def stopped(tmp_path):
    """Starts a command, sends it the signal once its program says that it hangs, and tells what came of it."""

    def run(*words, number=signal.SIGTERM):
        (tmp_path / "tmp").mkdir()
        environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
        process = subprocess.Popen([sys.executable, str(ROOT / "cli"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment)  # fmt: skip
        until(lambda: (tmp_path / "hangs").exists() or process.poll() is not None, "the program hangs")
        process.send_signal(number)
        if number == signal.SIGTERM:  # as `timeout` does
            process.send_signal(number)
        out, err = process.communicate()
        return process.returncode, out, err

    return run


def gone(path):
    pid = int(path.read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of process {pid}")


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
def test_a_comparison_ends_its_program_and_tells_what_it_has(stopped, tmp_path, number):
    """One arm hangs and has no run. Whether the other has one by then is chance."""
    hang = f"[ $X = 1 ] && exit; echo $$ > {tmp_path}/pid; touch {tmp_path}/hangs; exec sleep 600"
    status, out, err = stopped("compare", "--warmup", "0", "--arms", "a=env:X=1,b=env:X=2", "--", "sh", "-c", hang, number=number)
    assert status == 3 and "interrupted: what had been measured until then" in out and "verdict: can't tell for b" in out, err
    gone(tmp_path / "pid")
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGHUP))
def test_before_anything_is_finished_there_is_only_a_status(stopped, tmp_path, number):
    hang = f"echo $$ > {tmp_path}/pid; echo $MORTISE_LATENCY > {tmp_path}/records; touch {tmp_path}/hangs; exec sleep 600"
    status, out, err = stopped("latency", "--arms", "glibc", "--", "sh", "-c", hang, number=number)
    assert status == 128 + number and out == "" and "Traceback" not in err
    gone(tmp_path / "pid")
    records = Path((tmp_path / "records").read_text().strip())
    assert records.name == "calls" and not records.parent.exists()
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("first", ("", "set -m;"))
def test_a_client_of_a_server_ends_too(stopped, tmp_path, first):
    """Its shell may give each of its commands a group of its own."""
    load = f"exec bash -c '{first} sleep 600 & echo $! > {tmp_path}/client; touch {tmp_path}/hangs; wait'"
    server = f"echo $$ > {tmp_path}/pid; exec sleep 600"
    status, _, err = stopped("latency", "--arms", "glibc", "--load", load, "--", "sh", "-c", server)
    assert status == 128 + signal.SIGTERM and "Traceback" not in err
    gone(tmp_path / "pid")
    gone(tmp_path / "client")


def test_what_measures_is_gone_and_so_is_its_program(mortise_home, tmp_path):
    """Whoever is killed can end nothing himself."""
    hang = f"echo $$ > {tmp_path}/pid; touch {tmp_path}/hangs; exec sleep 600"
    process = subprocess.Popen([sys.executable, str(ROOT / "cli"), "compare", "--arms", "a=env:X=1,b=env:X=2", "--", "sh", "-c", hang],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(tmp_path)})  # fmt: skip
    until(lambda: (tmp_path / "hangs").exists(), "the program hangs")
    process.kill()
    process.wait()
    gone(tmp_path / "pid")


def test_a_signal_that_is_ignored_ends_no_run(cli, tmp_path):
    """A script's command in the background ignores the Ctrl-C that its terminal sends to all."""
    interrupt = "import os, signal; os.kill(os.getppid(), signal.SIGINT)"
    done = cli("latency", "--arms", "glibc", "--", "/usr/bin/python3", "-c", interrupt,
               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
