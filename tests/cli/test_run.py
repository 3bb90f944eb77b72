"""`mortise run` becomes the program: if it broke, statuses, arguments or children would differ from a plain run."""

import os
import signal
import subprocess
import sys

import pytest
from mortise import aftermath

from cli.conftest import ROOT


def test_the_library_is_loaded_and_the_status_is_the_programs(cli, toy):
    done = cli("run", "--alloc", "toy", "--", "sh", "-c", "grep -c libmortise-toy /proc/$$/maps; exit 7")
    assert done.returncode == 7 and int(done.stdout) > 0 and done.stderr == ""


def test_a_path_is_an_allocator_too(cli, toy):
    assert "libmortise-toy.so" in cli("run", "-a", str(toy), "--", "sh", "-c", "echo $LD_PRELOAD").stdout


def test_the_program_is_the_process_itself_so_signals_reach_it(cli):
    assert cli("run", "--alloc", "toy", "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    "words",
    (
        ["--alloc", "toy", "--", "printf", "%s|", "--alloc", "a b", ""],
        ["--alloc", "toy", "printf", "%s|", "--alloc", "a b", ""],
    ),
)
def test_arguments_arrive_unchanged(cli, words):
    assert cli("run", *words).stdout == "--alloc|a b||"


def test_an_older_preload_stays_behind_ours(cli, toy, mortise_home, monkeypatch):
    probe = str(mortise_home / "libexec/mortise-probe.so")
    monkeypatch.setenv("LD_PRELOAD", probe)
    assert cli("run", "--alloc", "toy", "--", "sh", "-c", "echo $LD_PRELOAD").stdout == f"{toy}:{probe}\n"


def test_settings_are_added_to_those_that_are_there(cli, monkeypatch):
    monkeypatch.setenv("MORTISE_CONF", "stats=exit")
    done = cli("run", "--alloc", "toy", "--conf", "purge_ms=5", "--", "sh", "-c", "echo $MORTISE_CONF")
    assert done.stdout == "stats=exit,purge_ms=5\n"


def test_only_self_is_said_to_the_library(cli):
    assert cli("run", "--alloc", "toy", "--only-self", "--", "sh", "-c", "echo $MORTISE_ONLY_SELF").stdout == "1\n"
    assert cli("run", "--alloc", "toy", "--", "sh", "-c", "echo $MORTISE_ONLY_SELF").stdout == "\n"


def test_glibc_preloads_nothing(cli):
    assert cli("run", "--alloc", "glibc", "--", "sh", "-c", "echo [$LD_PRELOAD]").stdout == "[]\n"


def test_without_room_for_temporary_files_the_program_runs_all_the_same(monkeypatch):
    def refuse(**_):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    environment = {}
    aftermath.watch(environment)
    assert environment == {}


def test_force_runs_what_preflight_refuses(cli, static_program):
    assert cli("run", "--alloc", "toy", "--force", "--", str(static_program)).returncode == 0


def test_a_library_for_another_machine_is_refused_as_the_loader_would_pass_it_over(cli, foreign_toy):
    line = cli.refused(3, "run", "--alloc", foreign_toy, "--", "true")
    assert "built for another machine (EM_S390, 64 bits) than '/usr/bin/true'" in line and "expected a library for the program's machine" in line


def test_a_program_for_another_machine_is_refused_static_or_not(cli, churn, static_program, tmp_path):
    for program in (churn, static_program):
        image = bytearray(program.read_bytes())
        image[18:20] = (22).to_bytes(2, "little")  # e_machine: IBM S/390
        foreign = tmp_path / "foreign"
        foreign.write_bytes(image)
        foreign.chmod(0o755)
        for words in (["run", "--alloc", "toy"], ["latency", "--arms", "glibc,toy"]):
            assert "is built for another machine (EM_S390, 64 bits)" in cli.refused(3, *words, "--", foreign)


def test_a_script_is_judged_by_its_interpreter(cli, tmp_path, static_program):
    script = tmp_path / "script"
    script.write_text(f"#!{static_program}\n")
    os.chmod(script, 0o755)
    assert "statically linked" in cli.refused(3, "run", "--alloc", "toy", "--", str(script))
    script.write_text("#!/usr/bin/env -S sh\necho served by $LD_PRELOAD\n")
    assert "libmortise-toy" in cli("run", "--alloc", "toy", "--", str(script)).stdout


@pytest.mark.parametrize("words", (["list"], ["list", "--json"], ["explain", "toy"], ["layers"], ["path", "toy"], ["compare", "--help"]))
def test_a_closed_pipe_ends_quietly(cli, words):
    """As a shell has it of every program, whoever notices it: Python, the option parser or what draws tables."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(ROOT / "cli"), *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
