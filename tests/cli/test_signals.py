"""The program has the signals that a shell would give it; without these a pipe's writer goes on, and Ctrl-C and kill do not end it."""

import os
import signal
import subprocess
import sys

import pytest

from cli.conftest import ROOT

IGNORED = ["grep", "SigIgn", "/proc/self/status"]


@pytest.mark.parametrize("words", (["run", "--alloc", "glibc"], ["run", "--alloc", "toy"]))
def test_a_program_ignores_nothing_that_python_ignores(cli, words):
    assert cli(*words, "--", *IGNORED).stdout.split() == ["SigIgn:", "0" * 16]


def test_a_writer_into_a_closed_pipe_ends(mortise_home):
    line = f"{sys.executable} {ROOT / 'cli'} run --alloc toy -- yes | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGPIPE, "y\n", "")
