"""The program has the signals that a shell would give it; without these a pipe's writer goes on, and Ctrl-C and kill do not end it."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from mortise import starting

from cli.conftest import ROOT, TOY, compile_c

WAITING = {  # commands that are there while the program runs, each over libraries that do nothing of their own
    "profile": ["profile"],
    "affinity": ["affinity", "--alloc", "toy+affinity"],
    "threads": ["threads", "--watch"],
}
SLEEPS = ["sh", "-c", "echo here; exec sleep 600"]
STATES = ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"]


def masks(states):
    """Of the signals blocked and of those ignored, without libc's own, 32 and 33: its posix_spawn leaves them ignored."""
    return [int(mask, 16) & (1 << 31) - 1 for mask in states.split()[1::2]]


def states_here():
    """What a program is given that a test starts itself: whoever runs the tests may have some signals ignored."""
    return masks(subprocess.run(STATES, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("words", (["run", "--alloc", "glibc"], ["run", "--alloc", "toy"]))
def test_a_program_ignores_nothing_that_python_ignores(cli, words):
    assert masks(cli(*words, "--", *STATES).stdout) == states_here()


def test_a_writer_into_a_closed_pipe_ends(mortise_home):
    line = f"{sys.executable} {ROOT / 'cli'} run --alloc toy -- yes | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGPIPE, "y\n", "")


@pytest.fixture
def kept(mortise_home, tmp_path, monkeypatch):
    """A home whose every library hands on to libc, and a folder for temporary files."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "share/mortise").mkdir(parents=True)
    (tmp_path / "toy.c").write_text(TOY)
    for name in ("hslab_profiled", "toy+affinity", "isolate", "isolate-sites"):
        compile_c(tmp_path / "toy.c", tmp_path / f"lib/libmortise-{name}.so", "-shared", "-fPIC", "-fno-builtin")
        (tmp_path / f"share/mortise/{name}.json").write_text((mortise_home / "share/mortise/toy.json").read_text().replace("toy", name))
    keys = [{"name": name, "type": "path", "default": "", "what": "for profile"} for name in ("profile", "sample_bytes")]
    (tmp_path / "share/mortise/conf.json").write_text(json.dumps({"schema": "mortise.conf/1", "keys": keys}))
    monkeypatch.setenv("MORTISE_HOME", str(tmp_path))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def begun(*words):
    """A command in a session of its own, as a service has it, when its program has said that it is there."""
    process = subprocess.Popen([sys.executable, ROOT / "cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)  # fmt: skip
    assert process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
@pytest.mark.parametrize("command", WAITING)
def test_a_signal_ends_the_program_and_leaves_no_file(kept, command, number):
    process = begun(*WAITING[command], "--", *SLEEPS)
    os.kill(process.pid, number)
    said = process.communicate()[1]  # the end of the program's output is the end of the program
    assert process.returncode == 128 + number and f"signal {int(number)} ended it" in said and "Traceback" not in said
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("command", WAITING)
def test_a_command_that_waits_leaves_no_signal_ignored_or_blocked(kept, cli, command):
    assert masks(cli(*WAITING[command], "--", *STATES).stdout) == states_here()


def test_ctrl_c_during_the_imports_is_no_traceback(tmp_path, monkeypatch):
    (tmp_path / "typer.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = begun("list")
    os.kill(process.pid, signal.SIGINT)
    assert (process.communicate()[1], process.returncode) == ("", -signal.SIGINT)


def test_what_was_ignored_stays_ignored(kept, cli):
    done = cli("profile", "--", *STATES, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    blocked, ignored = states_here()
    assert masks(done.stdout) == [blocked, ignored | 1 << (signal.SIGINT - 1)]


def test_a_terminals_ctrl_c_is_not_passed_on_a_second_time():
    """In the foreground of a terminal the program has it from there; a second one means something else to many programs."""
    child, terminal = pty.fork()
    if child == 0:
        os._exit(starting.has_terminal())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert status == 1
