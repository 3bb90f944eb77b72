"""Should a setting be misread, or an environment be trusted that must not be, the user would run on something else."""

import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import pytest

from support.allocators import CORE_CACHED, NAMES, library, program, run

EVERY_NAME = pytest.mark.parametrize("name", NAMES)


def said(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("mortise")]


@EVERY_NAME
def test_says_nothing_by_itself(name):
    done = run(["/bin/true"], name).ok()
    assert done.out == done.err == ""


@EVERY_NAME
@pytest.mark.parametrize("env", [{"MORTISE_VERBOSE": "1"}, {"MORTISE_CONF": "verbose=1"},
                                 {"MORTISE_CONF": ",verbose=1,"}])
def test_verbose_proves_which_allocator_is_active(name, env):
    line, = said(run(["/bin/true"], name, env=env).ok().err)
    assert re.fullmatch(rf"mortise \S+ {re.escape(name)} active pid=\d+ cpus=\d+ page=\d+ .*stats=none .*huge=auto", line)


@EVERY_NAME
def test_verbose_proves_nothing_for_one_that_does_not_serve(name):
    """Behind another allocator it is loaded all the same, and whoever measures the program must learn that."""
    other = "tlsf" if name != "tlsf" else "buddy"
    lines = sorted(said(run(["/bin/true"], name, preload=(library(other),), env={"MORTISE_VERBOSE": "1"}).ok().err), key=lambda line: "inactive" in line)
    active, inactive = lines
    assert f" {name} active pid=" in active and "malloc=" not in active
    assert re.fullmatch(rf"mortise \S+ {other} inactive pid=\d+ malloc={re.escape(str(library(name).resolve()))}", inactive)


def test_verbose_proves_nothing_for_one_that_was_opened_late():
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    line, = said(run([sys.executable, "-c", code, library("hslab")], env={"MORTISE_VERBOSE": "1"}).ok().err)
    assert re.match(r"mortise \S+ hslab inactive pid=\d+ malloc=/", line)


@EVERY_NAME
def test_verbose_is_not_misled_by_a_programs_own_jump_to_malloc(name, tmp_path):
    """Not position-independent, as Debian's python3 is: the address of malloc lies in the program."""
    (tmp_path / "fixed.c").write_text("#include <stdlib.h>\nint main(void) { void* (*volatile ask)(size_t) = malloc; free(ask(10)); return 0; }\n")
    subprocess.run(["cc", "-fno-pie", "-no-pie", tmp_path / "fixed.c", "-o", tmp_path / "fixed"], check=True)
    line, = said(run([tmp_path / "fixed"], name, env={"MORTISE_VERBOSE": "1"}).ok().err)
    assert f" {name} active pid=" in line
    behind = run([tmp_path / "fixed"], "tlsf" if name != "tlsf" else "buddy", preload=(library(name),), env={"MORTISE_VERBOSE": "1"}).ok()
    assert sum(f" {name} inactive pid=" in line for line in said(behind.err)) == 1, behind.err


def test_verbose_tells_the_fallback():
    name = "hslab"
    kernels, = said(run(["/bin/true"], name, env={"MORTISE_VERBOSE": "1"}).err)
    own, = said(run(["/bin/true"], name, rseq=False, env={"MORTISE_VERBOSE": "1"}).err)
    assert "caches=rseq" in kernels and "caches=own" in own


@pytest.mark.parametrize("name", CORE_CACHED)
def test_more_cpus_than_the_tables_hold_are_met_with_caches_of_threads(name):
    command = [program("life", "sleeper"), "many_cpus", program("life", "threads"), "handoff"]
    done = run(command, name, env={"MORTISE_VERBOSE": "1"})
    before, after = said(done.ok().err)
    assert "caches=rseq" in before and "caches=own" in after


@EVERY_NAME
@pytest.mark.parametrize("setting, complaint", [
    ("purge_m=5", "unknown setting 'purge_m' is ignored; did you mean 'purge_ms'?"),
    ("verbos=1", "unknown setting 'verbos' is ignored; did you mean 'verbose'?"),
    ("nonsense", "unknown setting 'nonsense' is ignored; mortise.conf(7) lists those that there are"),
    ("purge_ms:5", "unknown setting 'purge_ms:5' is ignored; a setting is KEY=VALUE"),
    ("purge_ms=soon", "setting 'purge_ms=soon' is ignored; it takes milliseconds, or -1 for never"),
    ("purge_ms=-2", "setting 'purge_ms=-2' is ignored"),
    ("purge_ms=", "setting 'purge_ms=' is ignored"),
    ("purge_ms=99999999999999999999", "setting 'purge_ms=99999999999999999999' is ignored"),
    ("stats=always", "setting 'stats=always' is ignored; it takes none, exit or json"),
    ("stats_file=" + "p" * 201, f"setting 'stats_file={'p' * 64}' is ignored; it takes a path of at most 200 characters"),
    ("verbose=yes", "setting 'verbose=yes' is ignored; it takes 0 or 1"),
    ("verbose=1\nor 2", "setting 'verbose=1?or 2' is ignored; it takes 0 or 1"),
    ("only_self=2", "setting 'only_self=2' is ignored; it takes 0 or 1"),
    ("k" * 300 + "=1", "unknown setting 'kkkk"),
])
def test_a_bad_setting_gives_one_line_and_changes_nothing(name, setting, complaint):
    done = run(["/bin/echo", "ran"], name, env={"MORTISE_CONF": setting}).ok()
    line, = said(done.err)
    assert line.startswith(f"mortise[{name}] warning: {complaint}")
    assert done.out == "ran\n"


@EVERY_NAME
def test_blanks_before_a_setting_are_passed_over(name):
    """As the command line's --conf takes them."""
    line, = said(run(["/bin/true"], name, env={"MORTISE_CONF": " huge=never,  verbose=1, "}).ok().err)
    assert f" {name} active pid=" in line and line.endswith(" huge=never")


@EVERY_NAME
@pytest.mark.parametrize("variable, meant", [
    ("MORTISE_PURGE_M", "PURGE_MS"), ("MORTISE_purge_ms", "PURGE_MS"), ("MORTISE_STAT", "STATS"), ("MORTISE_REPORT_FIEL", "REPORT_FILE"),
    ("MORTISE_HOME", None), ("MORTISE_THREADS_MAX", None), ("MORTISE_", None), ("MORTISE_" + "K" * 300, None)])
def test_a_variable_that_is_nearly_a_setting_is_told_of_and_others_are_not(name, variable, meant):
    lines = said(run(["/bin/true"], name, env={variable: "1"}).ok().err)
    expected = [f"mortise[{name}] warning: variable '{variable}' is ignored; did you mean 'MORTISE_{meant}'?"]
    assert lines == (expected if meant else [])


RESERVING = [name for name in NAMES if name.startswith("wfslab")]


@EVERY_NAME
@pytest.mark.parametrize("setting, takes", [
    ("reserve_mb=much", "mebibytes"), ("prefault=2", "0, 1 or lock"), ("on_exhausted=wait", "grow or fail"), ("refill_ahead=x", "0 or 1")])
def test_settings_of_the_reserve_are_for_allocators_that_have_one(name, setting, takes):
    line, = said(run(["/bin/true"], name, env={"MORTISE_CONF": setting}).ok().err)
    takes = takes if name in RESERVING else "an allocator with a reserve, such as wfslab"
    assert line == f"mortise[{name}] warning: setting '{setting}' is ignored; it takes {takes}"


@pytest.mark.parametrize("name", RESERVING)
def test_a_reserve_larger_than_there_is_room_for_is_told_of(name):
    line, = said(run(["/bin/true"], name, env={"MORTISE_RESERVE_MB": "300"}).ok().err)
    assert line.startswith(f"mortise[{name}] warning: the reserve of 300 MiB is not whole")
    assert not said(run(["/bin/true"], name, env={"MORTISE_RESERVE_MB": "256"}).ok().err)


@EVERY_NAME
def test_good_settings_are_taken(name):
    env = {"MORTISE_CONF": "purge_ms=250,stats=none", "MORTISE_VERBOSE": "1", "MORTISE_STATS": "exit"}
    lines = said(run(["/bin/true"], name, env=env).ok().err)
    assert " stats=exit " in lines[0]
    assert any("live bytes" in line for line in lines[1:])
    for value in ("0", "-1", "10000"):
        env = {"MORTISE_PURGE_MS": value, "MORTISE_VERBOSE": "1"}
        assert len(said(run(["/bin/true"], name, env=env).ok().err)) == 1


@EVERY_NAME
@pytest.mark.parametrize("others", [[], ["/nonexistent/other.so"]])
def test_only_self_leaves_children_alone(name, others):
    env = {"MORTISE_CONF": "only_self=1", "MORTISE_VERBOSE": "1"}
    script = "echo shell=$LD_PRELOAD; /bin/sh -c 'grep -c libmortise /proc/self/maps; true'"
    for preload in ([library(name), *others], [*others, library(name)]):
        for separator in (":", " "):
            env["LD_PRELOAD"] = separator.join(map(str, preload))
            done = run(["/bin/sh", "-c", script], name, env=env).ok()
            shell, count = done.out.splitlines()
            assert "libmortise" not in shell and shell.strip("=: ").endswith("".join(others) or "shell")
            assert count == "0"
            assert len(said(done.err)) == 1, done.err


@EVERY_NAME
def test_children_inherit_the_preload(name):
    done = run(["/bin/sh", "-c", "/bin/sh -c 'grep -c libmortise /proc/self/maps; true'"], name).ok()
    assert int(done.out) > 0


@EVERY_NAME
def test_a_privileged_program_ignores_the_environment(name, tmp_path):
    """A set-uid (or, without root, set-gid) program linked with the library: no setting of its caller reaches it."""
    source = tmp_path / "greet.c"
    source.write_text("#include <stdlib.h>\n#include <stdio.h>\n#include <sys/auxv.h>\n"
                      "int main(void) { free(malloc(10));"
                      " printf(\"secure=%lu\\n\", getauxval(AT_SECURE)); return 0; }\n")
    shutil.copy(library(name), tmp_path / library(name).name)
    subprocess.run(["cc", "-O0", str(source), "-o", str(tmp_path / "greet"), "-Wl,--no-as-needed",
                    str(tmp_path / library(name).name), f"-Wl,-rpath,{tmp_path}"], check=True)
    ours = (tmp_path, *tmp_path.parents)[:4]  # pytest keeps its folders to itself; nobody must get in
    for folder in takewhile(lambda one: one != Path(tempfile.gettempdir()), ours):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o755)
    greet = tmp_path / "greet"
    env = {"MORTISE_VERBOSE": "1", "MORTISE_CONF": "nonsense=1"}
    usual = run([greet], env=env).ok()
    assert usual.out == "secure=0\n" and len(said(usual.err)) == 2, usual.err
    if os.geteuid() == 0:
        greet.chmod(0o4755)
        secure = run([greet], env=env, user=65534, group=65534, extra_groups=[])
    else:
        other = next((g for g in os.getgroups() if g != os.getegid()), None)
        assert other is not None, "a privileged program can be made by root, or by a user who is in a second group"
        os.chown(greet, -1, other)
        greet.chmod(0o2755 | stat.S_ISGID)
        secure = run([greet], env=env)
    assert secure.ok().out == "secure=1\n"
    assert secure.err == ""


def test_a_reserve_is_filled_and_kept() -> None:
    """wfslab: with a warm reserve nothing grows; the thread that fills it up is there when it is asked for."""
    # A thread that has just been started gives itself its name when its turn comes.
    shows = "until [ $(ls /proc/$$/task | wc -l) = 1 ] || grep -q mortise-refill /proc/$$/task/*/comm; do :; done; cat /proc/$$/task/*/comm"
    for refill in ("0", "1"):
        conf = f"reserve_mb=16,prefault=1,refill_ahead={refill},stats=exit"
        done = run(["/bin/sh", "-c", shows], "wfslab", env={"MORTISE_CONF": conf}).ok()
        assert ("mortise-refill" in done.out) == (refill == "1")
        assert "reserve exhausted" not in done.err


@pytest.mark.parametrize("prefault, locked_kib", [("1", 0), ("lock", 1024)])
def test_a_reserve_may_be_locked(prefault: str, locked_kib: int) -> None:
    done = run(["/bin/sh", "-c", "grep VmLck /proc/$$/status"], "wfslab", env={"MORTISE_CONF": f"reserve_mb=1,prefault={prefault}"}).ok()
    assert int(done.out.split()[1]) == locked_kib


def test_a_reserve_that_may_not_grow_gives_no_memory() -> None:
    conf = "reserve_mb=8,on_exhausted=fail"
    assert run([program("life", "limits"), 100], "wfslab", env={"MORTISE_CONF": conf}).status != 0


def test_a_reserve_that_cannot_be_had_is_said() -> None:
    done = run(["/bin/true"], "wfslab", env={"MORTISE_CONF": "reserve_mb=128"},
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20))).ok()
    assert "the reserve of 128 MiB is not whole" in done.err
