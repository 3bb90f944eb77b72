"""When words are said: a user with a two-second program and every allocator of the machine has a first verdict within two minutes,
and nobody's verdict is lost for it. The clock is simulated, the sessions are whole ones.
"""

import dataclasses
import random
import re
import subprocess
import sys

import pytest
from mortise import analysis, progress, screen, session, sweeps
from mortise.arms import Arm
from mortise.launching import Launcher, Request

from cli.conftest import ROOT


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Listening:
    """Progress that keeps what was decided, and when."""

    def __init__(self) -> None:
        self.verdicts: dict[str, float] = {}
        self.weighed: list[str] = []
        self.so_far_at: list[float] = []
        self.said: list[str] = []

    def __call__(self, *_: object) -> None:
        pass

    def decided(self, document: dict, name: str, axis: str, elapsed: float) -> None:
        if axis == "time":
            self.verdicts[name] = elapsed
        else:
            self.weighed.append(name)

    def so_far(self, document: dict, elapsed: float) -> None:
        self.so_far_at.append(elapsed)
        with screen.progress.capture() as said:
            progress.Line(300).so_far(document, elapsed)
        self.said.append(said.get())


@pytest.fixture
def simulated(churn, monkeypatch):
    """A session of arms that take so many seconds a run, within one percent, and how it went."""
    like = Launcher().run(Request([str(churn), "1000"], Arm("shipped", "shipped")))
    clock, noise = Clock(), random.Random(1)

    class Simulated:
        def run(self, request: Request) -> object:
            taken = seconds.get(request.arm.name, seconds["a"]) * noise.uniform(0.99, 1.01)
            clock.now += taken
            facts = like.facts | {"cpu_s": taken, "wall_s": taken}
            return dataclasses.replace(like, facts=facts | {"peak_source": "exit_stop", "processes": 1} if request.memory else facts)

    def run(times: dict[str, float], knob: str = "", **settings: object) -> tuple[dict, Listening]:
        nonlocal seconds
        seconds, heard = times, Listening()
        monkeypatch.setattr(session, "Launcher", Simulated)
        monkeypatch.setattr(session.time, "monotonic", clock.monotonic)
        arms = [Arm(name, "environment", env={"X": name}) for name in times]
        settings["sweeps"] = sweeps.parse_all([knob] if knob else [], arms, ["x"])
        return session.Session([str(churn)], arms, session.Settings(**settings), {}, heard).run(), heard

    seconds: dict[str, float] = {}
    return run


def rounds(document: dict, name: str, kind: str = "time") -> list[int]:
    return [run["round"] for run in document["arms"][name]["runs"] if run["kind"] == kind]


def test_a_first_verdict_on_a_two_second_program_within_two_minutes(simulated):
    document, heard = simulated({"a": 2.0, "b": 1.5, "c": 1.8, "d": 2.5, "e": 2.2, "f": 1.7})
    assert min(heard.verdicts.values()) <= 120
    assert set(heard.verdicts) == {"b", "c", "d", "e", "f"} and document["elapsed_s"] <= 300
    for name in heard.verdicts:
        assert len(rounds(document, name)) >= 10 and set(rounds(document, name)) <= set(rounds(document, "a")), name
        assert len(rounds(document, name, "memory")) >= 3


def test_two_arms_end_within_two_minutes(simulated):
    document, heard = simulated({"a": 2.0, "b": 1.5})
    assert heard.verdicts["b"] <= 90 and document["elapsed_s"] <= 100


def test_within_two_minutes_it_is_said_how_things_stand(simulated):
    """However slow the program is: with six arms of ten seconds not two rounds are over by then, and what there is is said."""
    times = {"a": 10.0, "b": 7.5, "c": 9.0, "d": 12.5, "e": 11.0, "f": 8.5}
    _, heard = simulated(times)
    assert heard.so_far_at[0] <= 120
    first = heard.said[0].splitlines()
    assert re.fullmatch(r"so far     1\d\d s, round 1, against a", first[0])
    assert len(first) == 6 and all(re.search(r"[b-f]: time x[01]\.\d\d\d in (one round, which says little|the warm-up)", line) for line in first[1:])
    _, heard = simulated({name: seconds / 5 for name, seconds in times.items()})
    assert heard.so_far_at[0] <= 120 and max(b - a for a, b in zip(heard.so_far_at, heard.so_far_at[1:], strict=False)) < 60
    assert re.search(r"b: time x0\.7\d\d \[0\.\d+,0\.\d+\] at 9\d\.?\d* % from \d+ pairs", heard.said[0])
    assert re.search(r"b: time x0\.7\d\d \[\S+\] at 99\.\d % from 10 pairs, 2\d % less", heard.said[-1]), heard.said[-1]


def test_of_curves_it_is_said_too(simulated):
    _, heard = simulated({"a": 2.0, "b": 1.5}, "K={1,2,3}", budget_s=400)
    assert heard.so_far_at[0] <= 120
    assert re.fullmatch(r"so far     1\d\d s, round 5", heard.said[0].splitlines()[0])
    assert "a: 4 points, " in heard.said[-1] and "curves: " in heard.said[-1]
    _, slow = simulated({"a": 5.0, "b": 4.0}, "K={1,2,3}", budget_s=400)
    assert slow.so_far_at[0] <= 120 and "a: no point has both time and memory yet" in slow.said[0]


def test_words_come_from_the_fifth_round_on(simulated, monkeypatch):
    monkeypatch.setattr(session.standing, "EVERY_S", 0.0)
    _, heard = simulated({"a": 0.5, "b": 0.4, "c": 0.45}, rounds_max=7)
    assert len(heard.said) == 3 and "from 5 pairs" in heard.said[0] and "from 7 pairs" in heard.said[-1]
    assert "at 93.8 %" in heard.said[0] and "not decided" in heard.said[0]


def test_nobody_waits_for_what_the_budget_cannot_decide(simulated):
    """Half a thousandth in noise of a percent, with two thousandths of interest, would take most of an hour: said within two minutes, unless the user has named a budget."""
    hopeless, _ = simulated({"a": 2.0, "b": 2.001}, resolve=0.002)
    assert hopeless["gave_up"] and hopeless["elapsed_s"] <= 120 and len(rounds(hopeless, "b", "memory")) >= 3
    said = analysis.conclude(hopeless)["conclusion"]
    assert said["exit_status"] == 3 and re.search(r"about \d+ more rounds would be needed \(--budget \d+m --rounds \d+\)", said["sentence"])
    patient, _ = simulated({"a": 2.0, "b": 2.001}, resolve=0.002, patient=True)
    assert not patient.get("gave_up") and patient["elapsed_s"] > 280
    near, heard = simulated({"a": 2.0, "b": 2.03}, resolve=0.004)
    assert not near.get("gave_up") and "b" in heard.verdicts


def test_what_budget_and_rounds_bound(simulated, cli):
    """However small the budget, each arm has one round of either kind; memory rounds stand beside those that --rounds bounds."""
    least, _ = simulated({"a": 2.0, "b": 1.5}, budget_s=1.0)
    assert [rounds(least, name, kind) for name in ("a", "b") for kind in ("warmup", "time", "memory")] == [[0], [1], [1]] * 2
    few, _ = simulated({"a": 2.0, "b": 1.5}, rounds_max=2)
    assert rounds(few, "b") == [1, 2] and 3 <= len(rounds(few, "b", "memory")) <= 10
    said = " ".join(cli("compare", "--help").stdout.replace("│", " ").split())
    assert "one time round and one memory round" in said and "memory rounds come on top" in said


def test_nobody_waits_where_all_have_their_look_in_time(simulated):
    document, _ = simulated({"a": 0.3, "b": 0.25, "c": 0.27, "d": 0.35})
    assert all(rounds(document, name)[0] == 1 for name in document["arms"])


def test_nobody_goes_without_where_the_budget_is_short(simulated):
    """Waves in a budget that holds few rounds would leave the later ones without any: then all take part from the start."""
    document, _ = simulated({"a": 8.0, "b": 7.0, "c": 9.0, "d": 8.5})
    counts = [len(rounds(document, name)) for name in document["arms"]]
    assert min(counts) >= 3 and max(counts) - min(counts) <= 1
    few, _ = simulated({"a": 2.0, "b": 1.5, "c": 1.8, "d": 2.5, "e": 2.2, "f": 1.7}, rounds_max=12)
    assert {rounds(few, name)[0] for name in few["arms"]} == {1}


def test_an_undecided_arm_of_the_first_wave_goes_on_after_the_second(simulated):
    document, heard = simulated({"a": 2.0, "b": 2.042, "c": 1.5, "d": 2.5, "e": 2.6, "f": 1.7})
    assert "c" in heard.verdicts and heard.verdicts["c"] <= 120
    numbers = rounds(document, "b")
    assert numbers[:10] == list(range(1, 11)) and min(rounds(document, "f")) == 11
    assert "b" in heard.verdicts or numbers[-1] > 20


def test_who_has_been_weighed_enough_leaves_the_memory_rounds(simulated):
    """Memory that is decided after three rounds takes no more of the time that a verdict on time still needs."""
    document, heard = simulated({"a": 2.0, "b": 2.002}, resolve=0.001, patient=True)
    assert heard.weighed == ["b"] and len(rounds(document, "b")) > 20
    assert len(rounds(document, "b", "memory")) == len(rounds(document, "a", "memory")) == 3


def test_a_decided_arm_is_said_at_once(churn):
    """The line with the verdict stands on stderr, before the table."""
    arms = ["--arms", f"light=cmd:{churn} 1000", "--arms", f"heavy=cmd:{churn} 400000"]
    command = [sys.executable, str(ROOT / "cli"), "compare", "--check", "exit", "--rounds", "10", *arms, "--", str(churn)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert "decided    heavy against light: time " in done.stderr and "after 10 rounds" in done.stderr


def test_what_is_piped_is_not_folded(churn, monkeypatch):
    """A file or a pipe has no width: every row is one line, and so is the title, however long the command."""
    monkeypatch.delenv("COLUMNS")
    words = [str(churn), "100", "0", *(f"a-long-argument-{n}" for n in range(9))]
    arms = ["--arms", "a-name-of-forty-letters-that-needs-a-column=env:X=1,b=env:X=2"]
    command = [sys.executable, str(ROOT / "cli"), "compare", "--rounds", "2", "--warmup", "0", *arms, "--", *words]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600).stdout
    assert f"mortise compare -- {' '.join(words)}\n" in said
    row = next(line for line in said.splitlines() if "a-name-of-forty-letters-that-needs-a-column" in line and "reference" in line)
    assert row.count("reference") == 2
    assert "a ratio pairs the runs of one round" in said and ", paired" in said
