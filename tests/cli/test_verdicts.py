"""From runs to words where the runs are known: what may be claimed, and what takes a claim back."""

import inspect
import random

import pytest
from mortise import analysis, gates, session, stats, table
from mortise.commands import compare

from cli.test_plans import node


def measured(times: dict[str, list[float]], resolve: float = 0.02) -> dict:
    """A comparison whose arms, the first the reference and `control` its twin, took these times."""
    whole = node("here", 1.0, 1.0, 0)["measured"]
    like, whole["arms"] = whole["arms"]["a"], {}
    for name, seconds in times.items():
        runs = [like["runs"][0] | {"round": number, "cpu_s": value} for number, value in enumerate(seconds, 1)]
        entry = like | {"name": name, "runs": runs + [run | {"kind": "memory"} for run in runs[:3]]}
        (whole if name == "control" else whole["arms"])[name] = entry
    whole["preflight"] = {"findings": []}
    whole["settings"]["resolve"], whole["reference"] = resolve, next(iter(times))
    return analysis.conclude(whole)


def noisy(scale: float, seed: int, rounds: int = 20, spread: float = 0.005) -> list[float]:
    draw = random.Random(seed)
    return [scale * draw.uniform(1 - spread, 1 + spread) for _ in range(rounds)]


def test_a_control_that_differs_takes_every_verdict_back():
    """The reference run twice differs by a tenth: then another arm's 40 % may be the machine's as well."""
    honest = measured({"a": noisy(1, 1), "b": noisy(0.6, 2), "control": noisy(1, 3)})
    assert honest["conclusion"]["best"] == "b" and honest["conclusion"]["exit_status"] == 0
    ghosts = measured({"a": noisy(1, 1), "b": noisy(0.6, 2), "control": noisy(1.1, 3)})["conclusion"]
    assert ghosts["exit_status"] == 3 and ghosts["best"] is None and not ghosts["control_trusted"]
    assert ghosts["sentence"].startswith("can't tell: ") and "sees a difference where there is none" in ghosts["sentence"]


def test_what_the_control_cannot_resolve_is_said():
    said = measured({"a": noisy(1, 1, spread=0.2), "b": noisy(0.6, 2), "control": noisy(1, 3, spread=0.2)})["conclusion"]
    assert "2.0 % cannot be resolved in these rounds" in said["control_says"] and said["control_trusted"]


def test_minima_never_decide():
    """One lucky run is twice as fast; nobody gets it who runs the program."""
    times = noisy(1, 2)
    times[7] = 0.5
    document = measured({"a": noisy(1, 1), "b": times, "control": noisy(1, 3)})
    result = document["arms"]["b"]["vs_reference"]["time"]
    assert result["verdict"] == stats.SAME and result["ratio_of_minima"] == pytest.approx(0.5, rel=0.01)
    assert "note: b: the fastest runs give x0.50" in "\n".join(analysis.warnings(document))


def test_pairs_are_runs_of_one_round():
    """Rounds differ fivefold, the arms within a round by a tenth: only who pairs sees that."""
    draw = random.Random(4)
    slow = [draw.uniform(1, 5) for _ in range(20)]
    result = measured({"a": slow, "b": [0.9 * s for s in slow]})["arms"]["b"]["vs_reference"]["time"]
    assert result["ratio"] == pytest.approx(0.9) and result["high"] - result["low"] < 1e-4


def test_arms_share_the_chance_of_a_false_word():
    two = measured({"a": noisy(1, 1), "b": noisy(1, 2)})
    six = measured({name: noisy(1, seed) for seed, name in enumerate("abcdef")})
    assert two["arms"]["b"]["vs_reference"]["time"]["level"] >= 0.99
    assert six["arms"]["b"]["vs_reference"]["time"]["level"] >= 0.998


def test_cpu_time_decides_unless_told_otherwise():
    """Wall time of a shared machine calls identical programs different by percents."""
    assert inspect.signature(compare.command).parameters["time"].default == "cpu" == session.Settings().time
    document = measured({"a": noisy(1, 1), "b": noisy(0.5, 2)})
    for run in document["arms"]["b"]["runs"]:
        run["wall_s"] = 9.0
    assert analysis.conclude(document)["arms"]["b"]["vs_reference"]["time"]["verdict"] == stats.FASTER
    assert table.headings(document)[2] == "CPU time"


def test_a_gate_is_hit_by_the_whole_interval_and_not_by_luck():
    """An estimate beyond the threshold whose interval is not: the build is neither failed nor passed by it."""
    document = measured({"a": noisy(1, 1, spread=0.06), "b": noisy(1.045, 2, spread=0.06)})
    result = document["arms"]["b"]["vs_reference"]["time"]
    assert result["low"] < 1.03 < result["ratio"] < result["high"] < 1.2
    gate = {text: gates.parse(text, ["a", "b"]).state(document) for text in ("b slower 3%", "b slower 20%", "b faster 1%")}
    assert gate == {"b slower 3%": "open", "b slower 20%": "clear", "b faster 1%": "clear"}
    sure = measured({"a": noisy(1, 1), "b": noisy(1.045, 2)})
    assert gates.parse("b slower 3%", ["a", "b"]).state(sure) == "hit"


def test_an_arm_without_a_pair_is_not_told_of():
    """Interrupted before its first run ended: no pair is no tie, and "nothing is faster" would be a verdict on nothing."""
    said = measured({"a": noisy(1, 1), "b": [], "c": noisy(0.6, 2)})["conclusion"]
    assert said["undecided"] == ["b"] and said["exit_status"] == 3 and said["best"] == "c"
    alone = measured({"a": noisy(1, 1), "b": []})["conclusion"]
    assert alone["exit_status"] == 3 and alone["sentence"] == "can't tell for b (no round has a run of it and one of a)"
    assert measured({"a": [], "b": []})["conclusion"]["exit_status"] == 3
    early = measured({"a": [], "b": noisy(1, 2, rounds=1), "control": noisy(1, 3, rounds=1)})
    assert early["arms"]["b"]["vs_reference"]["time"]["rounds"] == 1 and early["conclusion"]["exit_status"] == 3, "its twin ran before it"


@pytest.fixture
def recorded(cli, tmp_path):
    """What `compare --json` writes of an arm whose own number is 4 % better beyond doubt."""
    path = str(tmp_path / "recorded.json")
    arms = ["--arms", "low=env:R=100,high=env:R=104", "--metric-regex", r"rate (\d+)", "--check", "exit"]
    assert cli("compare", "--rounds", "10", "--json", path, *arms, "--", "sh", "-c", "echo rate $R").returncode == 0
    return path


def test_a_gate_holds_for_a_replay(cli, recorded, tmp_path):
    """Ignored, it would pass every build."""
    gate = ["--fail-if", "high faster 3%", "--json", str(tmp_path / "gated.json")]
    done = cli("compare", "--replay", recorded, *gate)
    assert done.returncode == 4 and "gate 'high faster 3%': hit" in done.stdout
    assert cli("compare", "--replay", recorded).returncode == 0
    assert cli("compare", "--replay", recorded, "--fail-if", "high faster 20%").returncode == 0
    assert cli("compare", "--replay", gate[-1]).returncode == 4, "a gate of the measuring holds again"
    assert cli("compare", "--replay", gate[-1], "--fail-if", "high faster 20%").returncode == 0, "another stands for it"
    assert "unknown arm in --fail-if 'c'" in cli.refused(2, "compare", "--replay", recorded, "--fail-if", "c slower 3%")


@pytest.mark.parametrize("option", (["--arms", "a,c"], ["--time", "cpu"], ["--budget", "1m"], ["--metric-less"], ["--no-profile"], ["--seed", "1"]))
def test_what_only_a_run_heeds_is_refused_with_a_replay(cli, recorded, option):
    assert f"leave out {option[0].replace('no-', '')}, or --replay" in cli.refused(2, "compare", "--replay", recorded, *option)
