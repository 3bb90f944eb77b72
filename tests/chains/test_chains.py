"""Should affinity pools change what a program computes, or crash it, nobody could use them; should chains or wrappers be taken for
what they are not, objects would lie apart that belong together.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from support.allocators import BUILD, NAMES, ROOT, program, run

NAME = "hslab+affinity"
MODES = ["off", "size", "site", "chain", "graph"]
WAYS = ["o2", "frames", "o0"]
ALL = os.environ.get("MORTISE_TEST_ALL") == "1"
pytestmark = pytest.mark.skipif(NAME not in NAMES, reason="affinity pools are for x86-64 with glibc")


def affinity(tmp_path: Path, *words: str, mode: str = "chain", more: str = "", found: bool = True):
    """Runs `mortise affinity`; what it printed, and, if something was found, the document of the process with most nodes."""
    file = tmp_path / "found.json"
    command = [sys.executable, "-m", "mortise", "affinity", "--mode", mode, "--json", str(file), *(["--conf", more] if more else []), "--", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT / "cli"), "MORTISE_HOME": str(BUILD)}, timeout=600)
    assert done.returncode == (0 if found else 3), done.stderr
    return (done, json.loads(file.read_text())["processes"][0]) if found else done


def conf(mode: str) -> dict[str, str]:
    return {"MORTISE_CONF": f"affinity_mode={mode}"}


def test_a_program_that_leaves_nothing_behind_is_told_of(tmp_path):
    """By the status too, as by `mortise profile`; not where nothing was asked for but to run."""
    done = affinity(tmp_path, "perl", "-e", "use POSIX; fork and wait; POSIX::_exit(0)", found=False)
    assert "mortise: 'perl': it ended without its destructors (_exit, exec), or could not write any more (chroot, a full disk), and what was found in it is lost\n" in done.stderr
    quiet = [sys.executable, "-m", "mortise", "affinity", "--quiet", "--", "perl", "-e", "use POSIX; POSIX::_exit(0)"]
    assert subprocess.run(quiet, env=os.environ | {"PYTHONPATH": str(ROOT / "cli"), "MORTISE_HOME": str(BUILD)}, timeout=600).returncode == 0


def test_a_program_that_goes_on_in_the_background_is_told_of_though_its_parent_left_something():
    """Or one would take the parent's nothing for all that there is."""
    text = "if (!fork) { close STDERR; <STDIN>; }"
    command = [sys.executable, "-m", "mortise", "affinity", "--", "perl", "-e", text]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "cli"), "MORTISE_HOME": str(BUILD)}) as done:  # fmt: skip
        assert done.wait(timeout=600) == 0
        said = done.stderr.read()
        done.stdin.close()
    assert "mortise: 'perl': it went on in the background (process " in said and "instead of staying in the foreground" in said


@pytest.mark.parametrize("way", WAYS)
def test_wrappers_are_told_from_others(way, tmp_path):
    _, found = affinity(tmp_path, program("chains", f"wrappers-{way}"))
    verdicts = defaultdict(set)
    for caller in found["callers"]:
        if (name := caller["symbol"] or "").startswith(("w_", "n_")):
            verdicts[name].add(caller["verdict"])
    named = {n for n in verdicts if n[0] == "w"}
    assert named >= {"w_checked", "w_of_wrapper", "w_retries", "w_header", "w_by_alloca"}, verdicts
    for name, said in verdicts.items():
        assert (said == {"wrapper"}) == (name[0] == "w"), f"{name}: {said}"
    assert found["run"]["frame_rules_unknown"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_chains_end_at_the_first_function_that_is_no_wrapper(way, tmp_path):
    """Two places call each wrapper: two nodes, in two pools; by call site alone they are one."""
    _, found = affinity(tmp_path, program("chains", f"wrappers-{way}"))
    chains = [[w["symbol"] for w in n["chain"]] for n in found["nodes"] if n["pool"]]
    two_deep = [c for c in chains if c[0] == "w_checked" and len(c) == 2]
    three_deep = [c for c in chains if c[:2] == ["w_checked", "w_of_wrapper"] and len(c) == 3]
    assert len(two_deep) == 2 and len(three_deep) == 2, chains
    assert len({n["pool"] for n in found["nodes"] if n["chain"][0]["symbol"] == "w_checked"}) == 4
    _, by_site = affinity(tmp_path, program("chains", f"wrappers-{way}"), mode="site")
    assert len({n["pool"] for n in by_site["nodes"] if n["chain"][0]["symbol"] == "w_checked" and n["bytes"] == 48}) == 1
    assert all(len(n["chain"]) == 1 for n in by_site["nodes"])


def test_the_liberal_rule_sees_more_wrappers(tmp_path):
    _, found = affinity(tmp_path, program("chains", "wrappers-o2"), more="affinity_wrappers=liberal")
    said = {c["symbol"]: c["verdict"] for c in found["callers"]}
    assert said["n_initialises"] == said["n_keeps"] == "wrapper" and said["n_uses"] != "wrapper"


@pytest.mark.parametrize("mode", [*MODES, "graph,affinity_overhead=1", "chain,affinity_objects=1,affinity_bytes=1024,affinity_huge=1",
                                  "graph,affinity_objects=1,affinity_mixing=chains", "chain,affinity_sites=1", "graph,affinity_objects=1,affinity_sites=1"])
def test_output_is_the_same_in_every_mode(mode):
    for words in ([program("chains", "wrappers-o2")], [program("chains", "crowd"), 1000 if ALL else 40]):
        assert run(words, NAME, env=conf(mode)).ok().out == run(words).ok().out


def test_calls_that_name_their_pool_are_served_from_it(tmp_path):
    """Or the program's code would be written to and nothing come of it."""
    command = program("chains", "wrappers-o2")
    done, found = affinity(tmp_path, command, more="affinity_sites=1")
    _, plain = affinity(tmp_path, command)
    assert done.stdout == run([command]).out
    assert found["run"]["sites_patched"] > 0 and plain["run"]["sites_patched"] == 0
    assert found["run"]["misses"] <= plain["run"]["misses"] * 1.05, "the calls that were written to still find their pools"


def test_code_that_the_program_keeps_writable_stays_so(tmp_path):
    done, found = affinity(tmp_path, program("chains", "rewrites"), more="affinity_sites=1,affinity_misses=1")
    assert done.stdout == "42\n", done.stderr
    assert [n["counted"] for n in found["nodes"] if n["pool"]], "nothing led to a pool: nothing was tried"


@pytest.mark.parametrize("mode", MODES)
def test_pools_stand_over_the_systems_malloc_too(mode):
    library = BUILD / "lib/libmortise-system+affinity.so"
    for words in ([program("chains", "wrappers-o2")], [program("chains", "crowd"), 20], ["/usr/bin/python3", "-c", "print(sum(map(len, map(str, range(9999)))))"]):
        assert run(words, preload=(library,), env=conf(mode)).ok().out == run(words).ok().out


@pytest.mark.parametrize("mode", ["site", "chain", "graph", "chain,affinity_objects=1,affinity_sites=1"])
def test_libraries_come_and_go_under_a_profilers_signals(mode):
    """What was learnt of one library must not be believed of another in its place."""
    plugins = [BUILD / "tests/chains" / f"libprogram-chains-plugin-{frame}.so" for frame in (40, 360)]
    words = [program("chains", "modules"), *plugins, 1000]
    done = run(words, NAME, env=conf(mode)).ok()
    assert done.out == run(words).ok().out


def test_a_program_without_allocators_of_pools_is_refused(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mortise", "affinity", "--alloc", "hslab", "--", "true"], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "cli"), "MORTISE_HOME": str(BUILD)}, timeout=600)
    assert done.returncode == 2
    assert done.stderr.startswith("mortise: 'hslab' has no affinity pools: expected one of ")
