"""One comparison on many machines: the cells must say together what one session would, and never mix times."""

import json
import re
import subprocess
import sys

import jsonschema
import pytest
from mortise import analysis, plan_file, plans
from mortise.errors import WrongUse

from cli.conftest import ROOT
from cli.test_commands import schema


@pytest.fixture
def planned(cli, churn, tmp_path):
    def run(*words, cells="3", rounds="4"):
        path = tmp_path / "plan.json"
        done = cli("plan", "-o", str(path), "--cells", cells, "--rounds", rounds, "--seed", "7", "--arms", "glibc,toy",
                   *words, "--", str(churn), "20000", "2")  # fmt: skip
        assert done.returncode == 0, done.stderr
        jsonschema.validate(json.loads(path.read_text()), schema("plan"))
        return path

    return run


def report(cli, folder, tmp_path):
    out = tmp_path / "report.json"
    done = cli("report", str(folder), "--json", str(out))
    document = json.loads(out.read_text())
    jsonschema.validate(document, schema("compare"))
    return done, document


def test_cells_by_hand(cli, planned, tmp_path):
    path = planned()
    for index in ("2", "0", "1"):
        done = cli("cell", str(path), index, "-o", str(tmp_path / "cells"), "--node", f"node{int(index) % 2}")
        assert done.returncode == 0, done.stderr
        jsonschema.validate(json.loads((tmp_path / "cells" / f"cell-0000{index}.json").read_text()), schema("cell"))
    done, document = report(cli, tmp_path / "cells", tmp_path)
    assert done.returncode in (0, 3), done.stdout
    for entry in (*document["arms"].values(), document["control"]):
        rounds = sorted(run["round"] for run in entry["runs"] if run["kind"] == "time")
        assert rounds == list(range(1, 13)), "every round of every cell once"
    nodes = {run["round"]: run["node"] for run in document["arms"]["toy"]["runs"] if run["kind"] == "time"}
    assert [nodes[number] for number in (1, 5, 9)] == ["node0", "node1", "node0"]
    assert document["nodes"]["node0"]["cells"] == [0, 2]
    assert "2 machines: node0, node1" in done.stdout and document["arms"]["toy"]["served"] == 1
    gated = cli("report", str(tmp_path / "cells"), "--fail-if", "toy slower 1000%", "--json", str(tmp_path / "gated.json"))
    assert gated.returncode == done.returncode and "gate 'toy slower 1000%': clear" in gated.stdout
    assert json.loads((tmp_path / "gated.json").read_text())["settings"]["fail_if"] == ["toy slower 1000%"]
    assert "did you mean 'toy'?" in cli.refused(2, "report", str(tmp_path / "cells"), "--fail-if", "toi slower 3%")


def test_cells_by_gnu_parallel(planned, tmp_path, cli):
    path = planned()
    command = [sys.executable, str(ROOT / "cli"), "cell", str(path), "{}", "-o", str(tmp_path / "cells")]
    subprocess.run(["parallel", "-j1", *command, ":::", "0", "1", "2"], check=True, capture_output=True, timeout=600)
    _, document = report(cli, tmp_path / "cells", tmp_path)
    assert document["arms"]["toy"]["vs_reference"]["time"]["rounds"] == 12


def test_cells_by_a_cluster(planned, tmp_path, cli):
    """The local executor takes the way that Slurm's array jobs take."""
    done = cli("cell", str(planned(cells="2")), "--cluster", "local", "-o", str(tmp_path / "cells"))
    assert done.returncode == 0, done.stderr
    assert [line[-15:] for line in done.stdout.split()] == ["cell-00000.json", "cell-00001.json"]
    _, document = report(cli, tmp_path / "cells", tmp_path)
    assert document["arms"]["toy"]["vs_reference"]["time"]["rounds"] == 8


def test_a_cell_that_is_there_twice_is_refused(cli, tmp_path):
    """Its rounds would be counted as those of two cells, and the intervals be narrower than what was measured."""
    for name in ("cell-00000.json", "cell-00001.json"):
        (tmp_path / name).write_text(json.dumps(node("here", 0.9, 1.0, 0) | {"schema": "mortise.cell/1"}))
    said = cli.refused(2, "report", str(tmp_path))
    assert "cell-00000.json' and 'cell-00001.json' both hold cell 0" in said and "expected each cell once" in said


def test_a_plan_keeps_a_sweep(cli, planned, tmp_path):
    path = planned("--sweep", "toy:X={1,2}", cells="1", rounds="2")
    assert cli("cell", str(path), "0", "-o", str(tmp_path / "cells")).returncode == 0
    _, document = report(cli, tmp_path / "cells", tmp_path)
    assert [p["knob"] for p in document["curves"]["toy"]["points"]] == ["unset", "1", "2"]


def test_an_interrupted_cell_is_not_kept(planned, tmp_path, monkeypatch):
    """Who resumes a plan by the cells that are missing must not find half a cell in the place of a whole one."""
    monkeypatch.setattr(plans.Session, "run", lambda self: self.document | {"interrupted": True})
    with pytest.raises(KeyboardInterrupt):
        plans.run_cell(json.loads(planned().read_text()), 0, tmp_path / "cells")
    assert not (tmp_path / "cells").exists()


def test_wrong_use(cli, planned, tmp_path):
    path = planned()
    assert "it has cells 0 to 2" in cli.refused(2, "cell", str(path), "9")
    assert "which cell?" in cli.refused(2, "cell", str(path))
    assert "expected slurm or local" in cli.refused(2, "cell", str(path), "--cluster", "cloud")
    assert "expected KEY=VALUE" in cli.refused(2, "cell", str(path), "--cluster", "local", "--slurm", "x")
    assert "no cells in" in cli.refused(2, "report", str(tmp_path))
    assert "no program to plan for" in cli.refused(2, "plan")
    assert "was expected" in cli.refused(2, "cell", str(ROOT / "docs/schemas/list.json"), "0")


def node(name: str, factor: float, slow: float, index: int) -> dict:
    """A cell of a machine that is `slow` times slower in everything; the arm takes `factor` of the time there."""

    def runs(scale: float) -> list[dict]:
        return [{"kind": "time", "round": r, "knob": None, "cpu_s": slow * scale * (1 + r / 100), "wall_s": 1.0,
                 "user_s": 1.0, "sys_s": 0.0, "minor_faults": 1, "involuntary_switches": 0, "served": 1.0,
                 "malloc_from": [], "peak_rss_bytes": 1 << 20, "avg_rss_bytes": 0, "peak_source": "exit_stop",
                 "processes": 1} for r in range(1, 11)]  # fmt: skip

    arms = {arm: {"name": arm, "kind": "peer", "library": None, "env": {}, "argv": None, "failure": None, "died": {},
                  "runs": runs(scale)} for arm, scale in (("a", 1.0), ("b", factor))}  # fmt: skip
    measured = {"argv": ["p"], "arms": arms, "reference": "a", "baseline_bytes": 0, "elapsed_s": 1.0, "steal_s": 0.0,
                "machine": {"kernel": name}, "settings": {"time": "cpu", "memory": "peak", "metric_regex": None,
                "resolve": 0.02, "level": 0.99, "seed": 1, "fail_if": []}}  # fmt: skip
    return {"index": index, "node": name, "measured": measured}


def test_a_slow_machine_does_not_make_an_arm_slow():
    """One machine is ten times slower; the ratio on both is the same, and so is the ratio of the whole."""
    merged = analysis.conclude(plans.merge([node("fast", 0.9, 1.0, 0), node("slow", 0.9, 10.0, 1)]))
    assert merged["arms"]["b"]["vs_reference"]["time"]["ratio"] == pytest.approx(0.9)
    assert not any("disagree" in line for line in analysis.node_lines(merged))


def test_machines_that_disagree_are_named():
    merged = analysis.conclude(plans.merge([node("one", 0.9, 1.0, 0), node("two", 1.2, 1.0, 1)]))
    assert any(
        "these machines disagree" in line and "one x0.900, two x1.200" in line for line in analysis.node_lines(merged)
    )


WRONG_PLANS = {
    "options.rounds": [None, "four", [1], 0, 1.5],
    "options.warmup": ["\ud800", [None], -1, True],
    "options.load": [[None], "\ud800", 7],
    "options.sweep": ["tcmalloc", [1], {}],
    "options.metric_less": ["no", 0],
    "options.timeout": [3600, None],
    "argv": [[], "true", ["true", None], ["a\0b"]],
    "arms": [0, None, "glibc,toy", [["glibc"]]],
    "options": [None, [], "none"],
    "cells": [[], {}, 3],
    "cells.0": [0, [0, 7]],
    "cells.1.index": [0, "1", True, None],
    "cells.1.seed": [None, "seven", []],
}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in WRONG_PLANS.items() for value in values], ids=repr)
def test_a_plan_with_a_wrong_value_is_refused_by_its_name(tmp_path, name, value):
    plan = {"schema": "mortise.plan/1", "mortise": "0", "argv": ["true"], "arms": ["glibc"], "cwd": "/",
            "options": {"rounds": 1, "warmup": 0, "load": None, "sweep": None, "metric_less": False, "timeout": "1h"},
            "cells": [{"index": 0, "seed": 7}, {"index": 1, "seed": 8}]}  # fmt: skip
    table, *keys = plan, *(int(key) if key.isdigit() else key for key in name.split("."))
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    told = name.replace(".0", "[0]").replace(".1", "[1]")
    with pytest.raises(WrongUse, match=rf"plan.json': {re.escape(told)} = .*: expected .*; make the plan anew with 'mortise plan'$"):
        plan_file.read(path)
    del table[keys[-1]]
    if name in ("argv", "arms", "options", "cells", "cells.1.index", "cells.1.seed"):
        path.write_text(json.dumps(plan))
        with pytest.raises(WrongUse, match=f"{re.escape(told)} is missing: expected "):
            plan_file.read(path)


def test_a_wrong_plan_is_a_line_and_status_2(cli, planned):
    path = planned()
    plan = json.loads(path.read_text())
    plan["options"]["rounds"] = "four"
    path.write_text(json.dumps(plan))
    assert 'options.rounds = "four": expected a whole number not below 1' in cli.refused(2, "cell", str(path), "0")
