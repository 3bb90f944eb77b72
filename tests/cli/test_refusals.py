"""A user who errs reads one line that says what is wrong and what to do; without these, a stack trace or, worse, a
plain run.
"""

import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mortise.commands import explain, path
from mortise.errors import WrongUse, unknown

from cli.conftest import ROOT, compile_c


def test_unknown_allocator_names_the_nearest(cli):
    assert "did you mean 'toy'?" in cli.refused(2, "run", "--alloc", "toi", "--", "true")
    assert "did you mean 'toy'?" in cli.refused(2, "explain", "tyo")
    assert "did you mean 'toy'?" in cli.refused(2, "explain", "TOY")
    assert "did you mean 'toy'?" in cli.refused(2, "path", "tooy")
    assert "did you mean 'toy'?" in cli.refused(2, "compare", "--arms", "glibc,toyy", "--", "true")


def test_another_word_for_a_command(cli):
    for word, command in (("isolate", "threads"), ("bench", "compare")):
        assert f"No such command '{word}'. Did you mean '{command}'?: 'mortise --help' shows" in cli.refused(2, word)


@pytest.mark.parametrize("option", ("--ready", "--load", "--stop"))
def test_a_command_for_a_server_that_is_empty(cli, option):
    assert f"{option} ' ' is empty: expected a command, or no {option}" in cli.refused(2, "compare", option, " ", "--", "true")


def test_names_that_could_have_been_meant_are_told_once():
    assert "known: Always, Never. " in str(unknown("policy", "x", ["Never", "Always", "Never"], "'mortise layers' shows them"))


@pytest.fixture
def peer(monkeypatch, toy):
    """A machine that has mesh: its library is found where the loader would look."""
    monkeypatch.setattr("mortise.elf.loader_cache", lambda: {"libmesh.so": str(toy)})
    return Path(toy)


def test_a_peer_has_a_path_and_no_layers(peer, capsys):
    for name, said in (("mesh", f"'mesh' is found on this machine ({peer}) and has no layers"), ("glibc", "'glibc' is the system's own")):
        with pytest.raises(WrongUse, match=re.escape(said)):
            explain.command(name, False)
    path.command("mesh")
    assert capsys.readouterr().out == f"{peer}\n"


def test_glibc_needs_no_path(cli):
    assert "needs no library in front" in cli.refused(2, "path", "glibc")


def test_an_arm_is_no_allocator_of_run(cli):
    assert "expected --alloc toy --conf purge_ms=1,stats=json" in cli.refused(2, "run", "--alloc", "toy:purge_ms=1,stats=json", "--", "true")
    assert "expected --alloc glibc, and MALLOC_ARENA_MAX=1 in the environment" in cli.refused(
        2, "run", "--alloc", "glibc:MALLOC_ARENA_MAX=1", "--", "true"
    )


def test_numbers_of_other_commands(cli):
    assert "mortise: --every 'few': expected a whole number: 'mortise latency --help'" in cli.refused(2, "latency", "--every", "few", "--", "true")
    assert "mortise: INDEX 'one': expected a whole number: 'mortise cell --help'" in cli.refused(2, "cell", "plan.json", "one")
    assert "mortise: --max '2000': expected a whole number not above 1024" in cli.refused(2, "threads", "--max", "2000", "--", "true")


def test_an_option_without_its_name(cli):
    assert "--alloc names no allocator before '--': expected for example --alloc hslab -- PROG" in cli.refused(2, "run", "--alloc", "--", "true")
    assert "names no arm: expected for example --arms glibc,hslab" in cli.refused(2, "compare", "--arms", "--", "true")


@pytest.mark.parametrize(
    "words", (["list"], ["list", "--json"], ["explain", "toy"], ["path", "toy"], ["doctor", "--", "true"], ["--version"], ["--help"], [])
)
def test_a_full_disk_is_a_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, ROOT / "cli", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    line = "mortise: cannot write standard output: No space left on device; expected a place that can be written and has room\n"
    assert (done.returncode, done.stderr) == (2, line)


def short_of_room() -> None:
    """From here on a file takes 2000 bytes, and of a longer write the first ones: as a disk that fills up."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("unbuffered", ("", "1"))
@pytest.mark.parametrize("words", (["--help"], ["compare", "--help"], ["compare", "--replay", "REPORT", "--json", "-"]))
def test_a_disk_that_fills_up_amid_a_report_is_a_line(cli, churn, tmp_path, words, unbuffered):
    if "REPORT" in words:
        cli("compare", "--arms", "glibc,toy", "--rounds", "1", "--json", str(tmp_path / "report"), "--", str(churn))
    command = [sys.executable, ROOT / "cli", *(str(tmp_path / "report") if word == "REPORT" else word for word in words)]
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, preexec_fn=short_of_room,
                              env=os.environ | {"PYTHONUNBUFFERED": unbuffered})  # fmt: skip
    line = "mortise: cannot write standard output: File too large; expected a place that can be written and has room\n"
    assert (done.returncode, done.stderr, (tmp_path / "out").stat().st_size) == (2, line, 2000)


def test_a_pipe_that_would_not_wait_gets_all_of_a_report(cli, churn, tmp_path):
    """Node.js, for one, hands pipes on that do not wait."""
    cli("compare", "--arms", "glibc,toy", "--rounds", "9", "--json", str(tmp_path / "report"), "--", str(churn))
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    process = subprocess.Popen([sys.executable, ROOT / "cli", "compare", "--replay", tmp_path / "report", "--json", "-"], stdout=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as got:
        text = got.read()
    assert process.wait() == 3 and json.loads(text)["schema"] == "mortise.compare/1"


@pytest.mark.parametrize("closed", ("<&-", ">&-", ">&- 2>&-"))
def test_closed_streams_are_no_traceback_and_a_program_has_them_closed_as_well(closed):
    ours = f"{sys.executable} {ROOT / 'cli'}"
    done = subprocess.run(["sh", "-c", f"{ours} doctor -- true {closed}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    done = subprocess.run(["sh", "-c", f"{ours} run --alloc glibc -- sh -c '! [ -e /proc/self/fd/{0 if '<' in closed else 1} ]' {closed}"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_described_but_not_built(cli):
    assert "make build" in cli.refused(2, "run", "--alloc", "ghost", "--", "true")
    assert "make build" in cli.refused(2, "path", "ghost")


@pytest.mark.parametrize("command", (["run", "--alloc", "toy"], ["doctor"], ["compare", "--arms", "glibc,toy"]))
def test_missing_program(cli, command):
    assert "no program 'no-such-program-here' on PATH" in cli.refused(2, *command, "--", "no-such-program-here")
    assert "no such program './nowhere'" in cli.refused(2, *command, "--", "./nowhere")


def test_an_allocator_in_the_place_of_the_program(cli):
    assert "expected --alloc toy -- PROG" in cli.refused(2, "run", "toy", "--", "true")


def test_a_script_whose_interpreter_is_missing(cli, tmp_path):
    script = tmp_path / "script"
    for first, name in (("#!/no/such", "/no/such"), ("#!/usr/bin/env no-such-shell", "no-such-shell")):
        script.write_text(first + "\n")
        script.chmod(0o755)
        assert f"interpreter '{name}' of '{script}' is missing" in cli.refused(2, "run", "--alloc", "toy", "--", str(script))


def test_a_script_from_windows(cli, tmp_path):
    """The kernel looks for an interpreter whose name ends in CR, and says that there is no such file."""
    (tmp_path / "script").write_bytes(b"#!/bin/sh\r\necho here\r\n")
    (tmp_path / "script").chmod(0o755)
    for command in (["run", "--alloc", "toy"], ["doctor"], ["compare", "--arms", "glibc,toy"]):
        assert f"the lines of '{tmp_path}/script' end in CR and LF" in cli.refused(2, *command, "--", f"{tmp_path}/script")


def test_a_folder_and_a_text_are_no_programs(cli, tmp_path):
    (tmp_path / "text").write_text("hello")
    os.chmod(tmp_path / "text", 0o755)
    assert "cannot be executed" in cli.refused(2, "run", "--alloc", "toy", "--", str(tmp_path))
    assert "neither a Linux program nor a script" in cli.refused(
        3, "run", "--alloc", "toy", "--", str(tmp_path / "text")
    )


def test_static_and_set_uid_programs_are_refused_with_the_reason(cli, static_program, set_uid_program):
    for command in (["run", "--alloc", "toy"], ["compare", "--arms", "glibc,toy"]):
        assert "statically linked: preloading cannot work" in cli.refused(3, *command, "--", str(static_program))
        assert "set-user-id: the loader ignores LD_PRELOAD" in cli.refused(3, *command, "--", str(set_uid_program))
    assert cli("doctor", "--", str(static_program)).returncode == 3


def test_configuration_key(cli):
    assert "did you mean 'purge_ms'?" in cli.refused(
        2, "run", "--alloc", "toy", "--conf", "purge_mss=1", "--", "true"
    )
    assert "mortise.conf(7) lists them" in cli.refused(2, "run", "--alloc", "toy", "--conf", "purge=5", "--", "true")
    assert "is not KEY=VALUE" in cli.refused(2, "run", "--alloc", "toy", "--conf", "purge_ms", "--", "true")
    assert "did you mean 'purge_ms'?" in cli.refused(2, "compare", "--arms", "glibc,toy:purgems=1", "--", "true")


@pytest.mark.parametrize(
    "setting, expected",
    (
        ("purge_ms=abc", "a whole number from -1 to 9999999999"),
        ("purge_ms=-2", "a whole number from -1 to 9999999999"),
        ("purge_ms=99999999999999999999", "a whole number from -1 to 9999999999"),
        ("purge_ms=" + "9" * 5000, "a whole number from -1 to 9999999999"),
        ("purge_ms=1.5", "a whole number from -1 to 9999999999"),
        ("stats=always", "none, exit or json"),
        ("stats_file=" + "x" * 201, "a path of at most 200 characters"),
        ("limit=" + "9" * 5000, "bytes such as 100M or 2G, a share such as 90%, or none"),
        ("limit=101%", "bytes such as 100M or 2G, a share such as 90%, or none"),
        ("nodes=0-3;3", "auto, off, or the CPUs of each of at most 8 nodes such as 0-3+8;4-7, each CPU once"),
    ),
)
def test_a_value_that_the_library_would_pass_over(cli, setting, expected):
    """It would run with the default, and a comparison would call that arm by the value."""
    key, _, value = setting.partition("=")
    said = f"'{value}' is no value of '{key}': expected {expected}; mortise.conf(7)"
    assert said in cli.refused(2, "run", "--alloc", "toy", "--conf", setting, "--", "true")
    for arm in (f"toy:{setting}", f"toy:MORTISE_CONF={setting}", f"set=env:MORTISE_CONF={setting}"):
        assert said in cli.refused(2, "compare", "--arms", f"glibc,{arm}", "--", "true")


def test_a_swept_value_that_the_library_would_pass_over(cli):
    words = ["compare", "--arms", "glibc,toy", "--sweep", "toy:MORTISE_CONF=purge_ms={0,soon}", "--", "true"]
    assert "'soon' is no value of 'purge_ms'" in cli.refused(2, *words)


def test_values_are_passed_on_as_they_are(cli):
    given = "purge_ms=-1,stats=json,stats_file=/tmp/s.%p,limit=90%,nodes=0-3+8;4-7,later=whatever"
    assert cli("run", "--alloc", "toy", "--conf", given, "--", "sh", "-c", "echo $MORTISE_CONF").stdout == f"{given}\n"


def test_without_the_list_of_keys_a_warning_and_a_run(cli, mortise_home, tmp_path, monkeypatch):
    for folder in ("lib", "libexec"):
        (tmp_path / folder).symlink_to(mortise_home / folder)
    (tmp_path / "share/mortise").mkdir(parents=True)
    (tmp_path / "share/mortise/toy.json").write_bytes((mortise_home / "share/mortise/toy.json").read_bytes())
    monkeypatch.setenv("MORTISE_HOME", str(tmp_path))
    done = cli("run", "--alloc", "toy", "--conf", "anything=1", "--", "sh", "-c", "echo $MORTISE_CONF")
    assert done.returncode == 0 and done.stdout == "anything=1\n"
    assert "keys are not checked" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ("--json", "--html", "--markdown"))
def test_unwritable_report_is_found_before_measuring(cli, tmp_path, option):
    line = cli.refused(
        2, "compare", "--arms", "glibc,toy", option, str(tmp_path / "no" / "such" / "file"), "--", "true"
    )
    assert "cannot write the report" in line


@pytest.mark.parametrize(
    "words, said",
    (
        (["--resolve", "much"], "is not a share"),
        (["--budget", "long"], "is not a length of time"),
        (["--time", "real"], "expected cpu or wall"),
        (["--mem", "all"], "expected peak or avg"),
        (["--budget", "0"], "'0' is no time at all"),
        (["--budget", "9" * 400 + "h"], "is longer than 10000 h"),
        (["--timeout", "10001h"], "'10001h' is longer than 10000 h: expected for example 90s, 5m or 1h"),
        (["--arms", "x=cmd:true 'y"], "no closing quotation: expected a program as a shell reads it"),
        (["--arms", "x=env:LD_PRELOAD=libc.so.6:./no.so"], "no library './no.so' for LD_PRELOAD, which the loader would pass over"),
        (["--fail-if", "toy slower 3"], "'3' is not a share"),
        (["--check", "no"], "expected stdout, exit, or a command"),
        (["--ready", "true"], "--load must say"),
        (["--stdin", "/no/such/file"], "no file"),
        (["--arms", "toy"], "given twice"),
        (["--arms", "x=toy,x=glibc"], "arm 'x' is given twice: name one of them, for example other=glibc"),
        (["--arms", "./no.so"], "no library './no.so'"),
        (["--arms", "/etc/passwd"], "is not a shared library"),
        (["--json", "/tmp/mortise-twice", "--html", "/tmp/mortise-twice"], "two reports would go to 'mortise-twice'"),
        (["--repeat-inside", "0"], "mortise: --repeat-inside '0': expected a whole number not below 1: 'mortise compare --help'"),
        (["--rounds", "abc"], "mortise: --rounds 'abc': expected a whole number: 'mortise compare --help'"),
        (["--seed", "1.5"], "mortise: --seed '1.5': expected a whole number: 'mortise compare --help'"),
        (["--seed", "9" * 5000], f"--seed '{'9' * 40}': expected a whole number of fewer digits"),
        (["--sweep", "GOGC={}"], "expected 1 to 64 values"),
        (["--sweep", "@n={1,2}"], "no '{n}' among the program's arguments"),
        (["--latency", "sometimes"], "expected off or sampled or full"),
        (["--arms", "x=cmd:"], "names no program"),
        (["--arms", "x=env:FOO"], "is not KEY=VALUE"),
        (["--metric-regex", "("], "is not a regular expression"),
        (["--metric-regex", "x{99999999999}"], "is not a regular expression: the repetition number is too large"),
        (["--metric-regex", "(" * 9000 + ")" * 9000], "is not a regular expression: maximum recursion depth exceeded"),
        (["--bogus"], "No such option"),
        (["--rounds", "0"], "'mortise compare --help'"),
    ),
)
def test_wrong_options_of_compare(cli, words, said):
    assert said in cli.refused(2, "compare", "--arms", "glibc,toy", *words, "--", "true")


@pytest.mark.parametrize("command", (["run", "--alloc"], ["compare", "--arms"]))
@pytest.mark.parametrize(
    "file, said",
    (
        ("{tmp}/text.so", "is not a shared library: expected an allocator's .so"),
        ("{tmp}/cut.so", "is not a shared library: expected an allocator's .so"),
        ("{tmp}", "no library"),
        ("{tmp}/no.so.1", "no library"),
        ("{tmp}/prog", "is a program, which the loader does not preload: expected an allocator's .so"),
        ("libm.so.6", "defines no malloc that a program could call: expected an allocator's .so"),
        ("{tmp}/a space.so", "cannot be preloaded: a space or a colon ends a name in LD_PRELOAD"),
        ("{home}/libexec/mortise-probe.so", "defines no malloc that a program could call: expected an allocator's .so"),
    ),
)
def test_files_that_are_no_allocator(cli, tmp_path, mortise_home, toy, command, file, said):
    """The loader says at most one line of its own about these and goes on with glibc: a run, or a tie, that means nothing."""
    (tmp_path / "text.so").write_text("hello")
    (tmp_path / "cut.so").write_bytes(toy.read_bytes()[:200])
    (tmp_path / "prog.c").write_text("#include <stddef.h>\nvoid* malloc(size_t n) { return n ? NULL : NULL; }\nint main(void) { return 0; }\n")
    compile_c(tmp_path / "prog.c", tmp_path / "prog", "-fno-builtin", "-fPIE", "-pie", "-rdynamic")
    (tmp_path / "a space.so").write_bytes(toy.read_bytes())
    name = file.format(tmp=tmp_path, home=mortise_home)
    assert f"'{name}'" in cli.refused(2, *command, name, "--", "true") and said in cli.refused(2, *command, name, "--", "true")


def test_no_arm_in_a_list_of_arms(cli):
    assert "names no arm" in cli.refused(2, "compare", "--arms", ",", "--", "true")


def test_when_every_arm_fails_the_sentence_says_why(cli):
    done = cli("compare", "--arms", "glibc,toy", "--rounds", "2", "--timeout", "0.2s", "--", "sleep", "5")
    assert done.returncode == 1 and "verdict: every arm failed, nothing was compared: 'glibc' ran longer" in done.stdout


def test_one_arm_is_no_comparison(cli):
    assert "needs two arms" in cli.refused(2, "compare", "--arms", "toy", "--", "true")


def test_no_program_and_no_command(cli):
    assert "no program to compare on" in cli.refused(2, "compare")
    assert "Missing argument" in cli.refused(2, "run")
    assert "No such command 'comp'" in cli.refused(2, "comp")
    assert cli().returncode == 2


def test_replay_of_what_is_no_comparison(cli, tmp_path):
    broken, other = tmp_path / "broken.json", tmp_path / "other.json"
    broken.write_text("{")
    other.write_text(json.dumps({"schema": "mortise.list/1"}))
    assert "is not JSON" in cli.refused(2, "compare", "--replay", str(broken))
    assert "mortise.list/1 where mortise.compare/1 was expected" in cli.refused(2, "compare", "--replay", str(other))
    assert "cannot read" in cli.refused(2, "compare", "--replay", str(tmp_path / "none.json"))


def test_documents_that_are_not_whole(cli, churn, tmp_path):
    """The right name on the wrong content: a line that says what is gone, no stack trace."""
    path, cells = tmp_path / "o.json", tmp_path / "cells"
    for name in ("compare", "plan"):
        (tmp_path / name).write_text(json.dumps({"schema": f"mortise.{name}/1"}))
    cells.mkdir()
    (cells / "cell-00000.json").write_text(json.dumps({"schema": "mortise.cell/1"}))
    assert "is not whole or was changed by hand (it lacks 'arms')" in cli.refused(2, "compare", "--replay", str(tmp_path / "compare"))
    assert "argv is missing: expected the program and its arguments" in cli.refused(2, "cell", str(tmp_path / "plan"), "0")
    assert "is not whole or was changed by hand (it lacks 'measured')" in cli.refused(2, "report", str(cells))
    cli("compare", "--rounds", "2", "--arms", "glibc,toy", "--json", str(path), "--", str(churn))
    document = json.loads(path.read_text())
    del next(run for run in document["arms"]["toy"]["runs"] if run["kind"] == "time")["cpu_s"]
    path.write_text(json.dumps(document))
    assert "it lacks 'cpu_s'" in cli.refused(2, "compare", "--replay", str(path))
    assert "runs nothing: leave out the program" in cli.refused(2, "compare", "--replay", str(path), "--", "true")


def test_documents_that_nobody_could_have_meant(cli, churn, tmp_path):
    """A plan whose options are no options, nesting without an end: no stack trace either."""
    cli("plan", "-o", str(tmp_path / "plan"), "--arms", "glibc,toy", "--", str(churn))
    plan = json.loads((tmp_path / "plan").read_text())
    for key, value in (("options", []), ("arms", [1]), ("argv", [None]), ("options", plan["options"] | {"check": 1})):
        (tmp_path / "changed").write_text(json.dumps(plan | {key: value}))
        assert f"changed': {key}" in (said := cli.refused(2, "cell", str(tmp_path / "changed"), "0")) and ": expected " in said
    (tmp_path / "deep").write_text("[" * 100_000)
    assert "is not JSON" in cli.refused(2, "compare", "--replay", str(tmp_path / "deep"))
    path = tmp_path / "o.json"
    cli("compare", "--rounds", "1", "--arms", "glibc,toy", "--json", str(path), "--", str(churn))
    document = json.loads(path.read_text())
    for value in (10**400, 1e308):
        document["control"]["runs"][0]["cpu_s"] = value
        path.write_text(json.dumps(document))
        cli("compare", "--replay", str(path))
    document["baseline_bytes"] = 10**400
    path.write_text(json.dumps(document))
    assert "is not whole or was changed by hand" in cli.refused(2, "compare", "--replay", str(path))


@pytest.mark.parametrize("columns", ("0", "00", ""))
def test_a_terminal_without_columns_is_shown_something(cli, columns):
    """A shell without a terminal, or a terminal of size nothing, may say so."""
    assert "toy" in cli("list", env=os.environ | {"COLUMNS": columns}).stdout


def test_words_that_are_no_text(cli, tmp_path):
    """Names of files are bytes: what was measured for minutes is not lost for one that is not UTF-8, and a plan names that very file."""
    name = os.fsdecode(b"caf\xe9")
    program = ["sh", "-c", 'test "$0" = "$(printf "caf\\351")" && cat "$1" < /dev/null', name, "/dev/null"]
    files = {option: tmp_path / option[2:] for option in ("--json", "--html", "--markdown")}
    words = [word for pair in files.items() for word in map(str, pair)]
    done = cli("compare", "--arms", "glibc,toy", "--rounds", "1", *words, "--", *program, env=os.environ | {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 3 and done.stderr.count("Traceback") == 0, done.stderr
    assert json.loads(files["--json"].read_text())["argv"][3] == name and all("caf\\udce9" in path.read_text() for path in files.values())
    assert cli("compare", "--replay", str(files["--json"]), env=os.environ | {"PYTHONIOENCODING": "ascii"}).returncode == 3
    assert cli("plan", "-o", str(tmp_path / "plan"), "--arms", "glibc,toy", "--rounds", "1", "--", *program).returncode == 0
    cell = cli("cell", str(tmp_path / "plan"), "0", "-o", str(tmp_path))
    assert json.loads(Path(cell.stdout.strip()).read_text())["measured"]["arms"]["toy"]["runs"][0]["exit_status"] == 0
    assert cli("run", "--alloc", "toy", "--conf", f"stats_file={name}", "--", "true").returncode == 0
    assert "no such program './caf" in cli.refused(2, "run", "--alloc", "toy", "--", f"./{name}")


def test_a_home_that_is_none(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("MORTISE_HOME", str(tmp_path / "none"))
    assert "MORTISE_HOME names" in cli.refused(2, "list")
    (Path(tmp_path) / "empty").mkdir()
    monkeypatch.setenv("MORTISE_HOME", str(tmp_path / "empty"))
    assert "no allocators are built here" in cli.refused(2, "explain", "toy")
