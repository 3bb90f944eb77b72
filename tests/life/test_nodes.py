"""Should any of these fail, a program would crash, hang, swell or be told nonsense on a machine with several memory nodes: two CPUs are
played as two nodes.
"""

import json
import re

import pytest

from support.allocators import CARDS, has_layer, program, run

NODED = [n for n in CARDS if has_layer(n, "PerNode")]
TWO = {"MORTISE_NODES": "0;1"}
EVERY_WAY = pytest.mark.parametrize("name, rseq", [(n, rseq) for n in NODED for rseq in (True, False)], ids=str)


@EVERY_WAY
@pytest.mark.parametrize("what", ["threads order", "threads churn", "threads handoff", "forks", "signals rain", "sleeper idle"])
def test_a_program_lives_on_two_nodes(name, rseq, what):
    command, *arguments = what.split()
    done = run([program("life", command), *arguments], name, rseq=rseq, env=TWO | {"MORTISE_VERBOSE": "1"}).ok()
    assert " nodes=2 " in done.err


@pytest.mark.parametrize("name", NODED)
@pytest.mark.parametrize("low, high", [(16, 512), (1000, 30_000), (100_000, 1_000_000)])
@pytest.mark.parametrize("what", ["all", "random"])
def test_memory_goes_back_on_two_nodes(name, what, low, high):
    run([program("life", "bursts"), what, low, high], name, env=TWO).ok()


@pytest.mark.parametrize("name", NODED)
@pytest.mark.parametrize("text", ["", "x", "0,1", "0;0", "1-0", "0;", "0;1;2;3;4;5;6;7;8", "9999"])
def test_nodes_that_make_no_sense_are_one_line(name, text):
    done = run(["/bin/echo", "ran"], name, env={"MORTISE_NODES": text}).ok()
    line, = (line for line in done.err.splitlines() if line.startswith("mortise"))
    assert re.fullmatch(rf"mortise\[{name}\] warning: setting 'nodes={re.escape(text)}' is ignored; it takes auto, off, or the CPUs of each .*", line)
    assert done.out == "ran\n"


@pytest.mark.parametrize("name", NODED)
@pytest.mark.parametrize("env", [{"MORTISE_NODES": "off"}, {"MORTISE_NODES": "0-1"}])
def test_one_heap_where_there_is_one_node(name, env):
    done = run(["/bin/true"], name, env=env | {"MORTISE_VERBOSE": "1"}).ok()
    assert "nodes=" not in done.err


@EVERY_WAY
def test_statistics_are_of_all_heaps(name, rseq, tmp_path):
    file = tmp_path / "stats"
    run(["/bin/ls", "/"], name, rseq=rseq, env=TWO | {"MORTISE_STATS": "json", "MORTISE_STATS_FILE": str(file)}).ok()
    said = json.loads(file.read_text())
    assert said["mapped_bytes"] == said["live_bytes"] + said["cached_bytes"] + said["dirty_bytes"] + said["purged_bytes"]
    assert 0 < said["resident_bytes"] < said["window_bytes"]
    assert said["window_bytes"] > 1 << 42  # windows in a row


def test_cpus_that_are_not_there_are_told_of():
    """Nobody's memory would ever lie on such a node."""
    done = run(["/bin/echo", "ran"], "hslab", env={"MORTISE_NODES": "0;1000+1023"}).ok()
    assert done.out == "ran\n" and done.err == "mortise[hslab] warning: setting 'nodes=0;1000+1023' names CPUs that this machine has not\n"
    assert run(["/bin/echo", "ran"], "hslab", env={"MORTISE_NODES": "0"}).ok().err == ""
