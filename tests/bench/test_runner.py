"""The runner of the benchmark records what ran, sets failures apart, goes on where it stopped, and names who is missing.

If this failed, a table could compare an allocator with itself under another name, or leave out a peer without a word.
"""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from support.allocators import library

from .conftest import BENCH

OURS = ["hslab", "wfslab"]
SUITE = {"synthetic": {"mix": {"threads": [1, 2], "quick": 2, "weight": 1}, "trees": {"threads": [1], "quick": 1, "weight": 1}}, "real": {}}


@pytest.fixture
def stage(bench, programs, tmp_path, monkeypatch):
    """The runner in a folder of its own, with workloads of a thousandth of their size."""
    small = tmp_path / "programs"
    small.mkdir()
    for name in ("mix", "trees"):
        (small / name).write_text(f'#!/bin/sh\nexec {programs / name} "$@" --ops 20000\n')
        (small / name).chmod(0o755)
    (small / "measure").symlink_to(programs / "measure")
    monkeypatch.setattr(bench.session, "PROGRAMS", small)
    monkeypatch.setattr(bench.session, "BENCH", tmp_path / "bench")
    (tmp_path / "bench/inputs").mkdir(parents=True)
    (tmp_path / "bench/inputs/ready").touch()  # of the real programs none is run
    return bench


def arm(bench, name: str, path: Path, **more):
    return bench.peers.Arm(name, name, "ours", "0", str(path), **more)


def session_of(bench, arms: dict):
    return bench.session.Session("test", arms, lambda _: None)


def test_each_round_has_every_cell_on_every_arm(stage):
    arms = {name: arm(stage, name, library(name)) for name in OURS}
    running = session_of(stage, arms)
    cells = running.available(stage.session.cells_of(SUITE, "standard", []))
    assert [cell.label for cell in cells] == ["mix/1", "mix/2", "trees/1"]
    assert running.run(cells, 2, 600)
    assert sorted((r["round"], r["workload"], r["threads"], r["arm"]) for r in running.runs) == sorted(
        (n, c.workload, c.threads, name) for n in range(2) for c in cells for name in OURS)
    for run in running.runs:
        assert "failed" not in run and run["expected_seen"] and run["exit_status"] == 0
        assert run["operations"] == 20000 and run["wall_s"] > 0
        assert run["peak_rss_bytes"] + (1 << 20) >= run["avg_rss_bytes"] > 0, "a sample is off by some pages, being read from counters of each core"
    assert len({(r["workload"], r["threads"], r["answer"]) for r in running.runs}) == 3, "one answer a cell"
    again = session_of(stage, arms)
    assert again.runs == running.runs, "what was kept is what was measured"
    assert again.run(cells, 2, 0), "a budget of nothing is enough where nothing is left to do"
    assert not session_of(stage, arms).run(cells, 3, 0), "it says that the budget is used up"
    assert len(again.runs) == len(running.runs)


def test_who_takes_much_memory_warms_its_own(stage, monkeypatch):
    suite = {"synthetic": SUITE["synthetic"] | {"trees": SUITE["synthetic"]["trees"] | {"large": True}}, "real": {}}
    running = session_of(stage, {name: arm(stage, name, library(name)) for name in OURS})
    ran, measure = {"mix": [], "trees": []}, running.measure
    monkeypatch.setattr(running, "measure", lambda cell, of, rng: ran[cell.workload].append(of.name) or measure(cell, of, rng))
    assert running.run(stage.session.cells_of(suite, "quick", []), 1, 600)
    first, second = (run["arm"] for run in running.runs if run["workload"] == "mix")
    assert ran["mix"] == [first, first, second], "one run a cell does not count"
    first, second = (run["arm"] for run in running.runs if run["workload"] == "trees")
    assert ran["trees"] == [first, first, second, second], "one of each arm does not count"


def test_failures_are_named_and_not_compared(stage, broken):
    arms = {"hslab": arm(stage, "hslab", library("hslab")), "broken": arm(stage, "broken", broken),
            "absent": arm(stage, "absent", library("hslab"), serves="/of another name.so")}
    running = session_of(stage, arms)
    cells = stage.session.cells_of(SUITE, "quick", ["mix"])
    assert running.run(cells, 2, 600)
    results = stage.report.Results(running.runs, SUITE, list(arms), "hslab", [])
    assert results.failures["absent on mix/2"] == "the allocator is not in the process"
    assert "exit status" in results.failures["broken on mix/2"]
    assert len([r for r in running.runs if r["arm"] == "broken"]) == 1, "what failed once is not tried again"
    assert list(results.cells["synthetic", "mix", 2]) == ["hslab"]


def test_an_answer_of_its_own_is_a_failure(stage):
    runs = [{"group": "synthetic", "workload": "mix", "threads": 1, "arm": name, "round": 0, "cpu_s": 1, "answer": answer}
            for name, answer in (("a", "x"), ("b", "x"), ("c", "y"))]
    results = stage.report.Results(runs, SUITE, ["a", "b", "c"], "a", [])
    assert results.failures == {"c on mix/1": "its answer differs from the others'"}


def test_a_workload_that_is_not_built_is_named(stage):
    running = session_of(stage, {})
    cells = [stage.session.Cell("synthetic", "nowhere", 1), stage.session.Cell("synthetic", "mix", 1)]
    assert [cell.workload for cell in running.available(cells)] == ["mix"]
    assert "nowhere is not installed" in running.missing["nowhere"]


def test_a_missing_peer_is_named_with_its_reason(stage, monkeypatch, tmp_path, capsys):
    peers = {"ghost": {"title": "a ghost", "kind": "general", "apt": "a-package-that-nobody-has", "library": "/usr/lib/libghost.so"}}
    monkeypatch.setattr(stage.peers, "recipes", lambda: peers)
    monkeypatch.setattr(stage.peers, "CACHE", tmp_path / "peers")
    monkeypatch.setattr(sys, "argv", ["run.py", "--no-setup", "--arms", "hslab,ghost", "--lib-dir", str(library("hslab").parent), "--reference", "hslab",
                                      "--only", "mix/1", "--rounds", "2", "--no-pairs", "--name", "test"])
    assert stage.run.main() == 0
    document = json.loads((tmp_path / "bench/test.json").read_text())
    assert document["schema"] == "mortise.bench/1"
    assert list(document["missing"]) == ["ghost"] and "a-package-that-nobody-has is not installed" in document["missing"]["ghost"]
    assert sorted(document["arms"]) == ["hslab", "hslab again"] and len(document["runs"]) == 4 and not document["failures"]
    text = (tmp_path / "bench/test.txt").read_text()
    assert "ghost" in text and "missing" in text and "hslab again over itself" in text
    assert (tmp_path / "bench/test.html").stat().st_size > 0
    assert "ghost" in capsys.readouterr().out


def test_an_unknown_allocator_is_refused(stage):
    with pytest.raises(SystemExit, match="no allocator is called 'nobody'; there are: .*hslab"):
        stage.run.choose(["nobody"], library("hslab").parent, print)


def test_a_preloaded_library_that_does_not_serve_is_no_arm(stage):
    with pytest.raises(stage.peers.Missing, match="it is preloaded, but malloc comes from"):
        stage.peers.prove(arm(stage, "none", "/lib/x86_64-linux-gnu/libm.so.6"), stage.session.PROGRAMS)


def test_the_pairs_are_those_of_the_arm_or_none(stage, programs):
    (stage.session.PROGRAMS / "pair").symlink_to(programs / "pair")
    arms = {"hslab": arm(stage, "hslab", library("hslab")), "gone": arm(stage, "gone", "/nowhere/libgone.so")}
    table = stage.session.pairs_table(arms)
    assert set(table) == {"hslab"}, "a library that is not there leaves glibc to be measured in its name"
    assert all(row["lifo_ns"] > 0 for row in table["hslab"])


def test_the_suite_names_programs_that_exist(bench):
    suite = tomllib.loads((BENCH / "suite.toml").read_text())
    assert {source.stem for source in (BENCH / "workloads").glob("*.cpp")} == set(suite["synthetic"])
    for kind in suite["runs"].values():
        assert all(name in bench.peers.recipes() or name == "*" or library(name).exists() for name in kind["arms"])
