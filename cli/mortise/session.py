"""The measuring itself: baseline, warm-up, rounds in random order, memory rounds apart, until decided or out of budget.

What is measured goes into a plain document (formats.COMPARE without its conclusions); `analysis` turns that into
verdicts, both while measuring, to know when to stop, and afterwards, so that a report can be made again from the file.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import (
    __version__,
    analysis,
    curve_report,
    faults,
    formats,
    gates,
    latency,
    machine,
    profiles,
    standing,
    stats,
)
from mortise.arms import CONTROL, Arm
from mortise.errors import RunFailed
from mortise.launching import Launcher, Request, Service
from mortise.sweeps import Place, Sweep, applied, places_of

MEMORY_EVERY = 4
MEMORY_ROUNDS_MIN = 3
SWEEP_FIRST_LOOK = 6
SWEEP_ROUNDS_ENOUGH = 12
DEATHS_MAX = 3
FIRST_VERDICT_S = 110.0  # by when the first arms should be decided: nobody waits longer to see whether this is of any use
HOPELESS = 3  # times the rounds that the budget still holds: who needs more is not waited for
PADDING_MAX = 4096


@dataclass
class Settings:
    """How to compare: everything the command line can say."""

    time: str = "cpu"
    memory: str = "peak"
    resolve: float = 0.02
    budget_s: float = 300.0
    patient: bool = False  # the user named the budget: it is used up where something is still to be decided
    rounds_max: int = 200
    warmup: int = 1
    check: str = "stdout"
    metric_regex: str | None = None
    metric_better: str = "more"
    seed: int = 0
    profile: bool = False
    latency: int = 0  # one call in so many is timed, in a run apart; 0: no such run
    timeout_s: float = 3600.0
    stdin: Path | None = None
    service: Service | None = None
    control: bool = True
    repeat_inside: int = 1  # how often main runs in a time run
    fixed: bool = False  # a cell of a plan: just these rounds and one memory round, nothing is decided here
    fail_if: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    sweep_texts: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        service = self.service or Service()
        plain = ("time", "memory", "resolve", "budget_s", "rounds_max", "warmup", "check", "metric_regex",
                 "metric_better", "seed", "timeout_s", "fail_if", "repeat_inside")  # fmt: skip
        return {name: getattr(self, name) for name in plain} | {
            "level": stats.LEVEL, "stdin": str(self.stdin) if self.stdin else None, "sweeps": self.sweep_texts,
            "ready": service.ready, "load": service.load, "stop": service.stop,
        }  # fmt: skip


Progress = Callable[[dict[str, Any], str, float], None]


class Session:
    """One comparison from its first run to the end of its budget."""

    def __init__(
        self, argv: list[str], arms: list[Arm], settings: Settings, preflight: dict[str, Any], progress: Progress
    ):
        self.argv, self.settings, self.progress = argv, settings, progress
        self.random = random.Random(settings.seed)
        self.launcher = Launcher()
        self.started = time.monotonic()
        self.teller = standing.Teller(progress, self.started)
        self.expected = {is_memory: faults.Expected() for is_memory in (False, True)}  # repeated or not: they print differently
        self.retired: set[str] = set()  # arms whose time is decided
        self.weighed: set[str] = set()  # arms whose memory is
        self.waves: list[list[str]] = []  # arms whose turn it is, then those after them; none: everyone's turn
        self.wave_began = self.memory_rounds = 0
        self.latest: dict[tuple[str, str | None, str], float] = {}
        self.document: dict[str, Any] = {
            "schema": formats.COMPARE, "mortise": __version__, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "argv": argv, "settings": settings.document(), "machine": machine.facts(), "preflight": preflight,
            "reference": arms[0].name, "baseline_bytes": 0,
            "arms": {arm.name: arm.document() | {"failure": None, "died": {}, "runs": []} for arm in arms},
        }  # fmt: skip
        everyone = list(arms)
        if settings.control and len(arms) > 1:
            everyone.append(arms[0].twin(CONTROL))
            self.document[CONTROL] = everyone[-1].document() | {"failure": None, "died": {}, "runs": []}
        self.places = places_of(everyone, settings.sweeps)
        self.swept = any(place.knob is not None for place in self.places)

    # ---- the protocol ------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        steal = machine.steal_seconds()
        self.baseline()
        try:
            self.rounds()
            if self.settings.profile:
                self.document["profile"] = self.profile()
                self.document["system_calls"] = self.system_calls()
            if self.settings.latency:
                self.document["latency"] = self.latencies()
        except KeyboardInterrupt:
            self.document["interrupted"] = True  # what was measured until then is reported
        self.document["elapsed_s"] = round(time.monotonic() - self.started, 3)
        self.document["steal_s"] = round(machine.steal_seconds() - steal, 3)
        return self.document

    def rounds(self) -> None:
        for number in range(self.settings.warmup):
            self.round("warmup", number)
        rounds = 0
        self.waves = self.in_waves()
        while rounds < self.settings.rounds_max and (rounds == 0 or self.affords("time")):
            rounds += 1
            self.round("time", rounds)
            if rounds % MEMORY_EVERY == 0 and self.weighing() and self.affords("memory"):
                self.memory_round()
            if self.done(rounds) or self.hopeless(rounds) or not self.live("time"):
                break
            self.next_wave(rounds)
            self.teller.after(self.document, rounds)
        self.waves = []
        least = 1 if self.settings.fixed else MEMORY_ROUNDS_MIN
        while self.weighing() and ((few := self.watched()) < least or not self.memory_known()) and (
            self.memory_rounds == 0
            or (few < least and time.monotonic() - self.started < self.settings.budget_s)
            or self.affords("memory")
        ):
            self.memory_round()

    def memory_round(self) -> None:
        """One more, after which an arm whose memory is decided is weighed no more: what is left of the budget goes to time."""
        self.memory_rounds += 1
        self.round("memory", self.memory_rounds)
        if self.swept or self.settings.fixed:
            return
        waiting = self.waiting("memory")
        for name in analysis.others(self.document):
            found = None if self.entry(name)["failure"] else analysis.memory_result(self.document, self.entry(name))
            decided = found and found["verdict"] != stats.CANNOT_TELL and name not in waiting
            if decided and name not in self.weighed and self.watched(name) >= MEMORY_ROUNDS_MIN:
                self.weighed.add(name)
                self.teller.decided(self.document, name, "memory")

    def weighing(self) -> bool:
        """Whether a memory round would tell anything: of the reference alone only where it is the only one."""
        arms = {place.arm.name for place in self.live("memory")}
        return bool(arms - {self.document["reference"]}) or (bool(arms) and len(self.document["arms"]) == 1)

    def watched(self, name: str | None = None) -> int:
        """In how many memory rounds this arm took part; without a name, that of which there are fewest."""
        entries = [entry for entry in self.document["arms"].values() if not entry["failure"] and name in (None, entry["name"])]
        return min((len({r["round"] for r in e["runs"] if r["kind"] == "memory"}) for e in entries), default=0)

    def in_waves(self) -> list[list[str]]:
        """Which arms have their first look first, where all of them together would come to it late and in two halves they still all
        come to it within the budget. What the warm-up took tells; the reference and its twin run with either half.
        """
        others = analysis.others(self.document)
        taken, budget = time.monotonic() - self.started, 0.9 * self.settings.budget_s

        def until(*arms: str) -> float:
            return taken + self.look_cost(arms)

        few = self.settings.rounds_max < 2 * self.rounds_enough()
        if self.swept or self.settings.fixed or few or not self.latest or until(*others) <= FIRST_VERDICT_S:
            return []
        fit = max((n for n in range(1, len(others)) if until(*others[:n]) <= FIRST_VERDICT_S), default=0)
        first, rest = others[:fit], others[fit:]
        return [first, rest] if fit and until(*first) + self.look_cost(rest) <= budget else []

    def look_cost(self, arms: Sequence[str]) -> float:
        """Seconds until these arms, the reference and its twin have had as many rounds as a verdict takes."""
        runs = {name: self.latest.get((name, None, "warmup"), 0.0) for name in (self.document["reference"], CONTROL, *arms)}
        rounds = self.rounds_enough()
        watched = sum(seconds for name, seconds in runs.items() if name != CONTROL)
        return rounds * sum(runs.values()) + rounds // MEMORY_EVERY * watched

    def next_wave(self, rounds: int) -> None:
        """The turn goes on once those whose turn it is have been looked at, or are out."""
        if not self.waves:
            return
        out = all(name in self.retired or self.entry(name)["failure"] for name in self.waves[0])
        if out or rounds - self.wave_began >= self.rounds_enough():
            self.waves, self.wave_began = self.waves[1:], rounds

    def baseline(self) -> None:
        """What the program's image holds before main, as it ships: the same figure is taken off every arm."""
        outcome = self.launcher.run(self.request(Place(Arm("baseline", "shipped")), memory=False, baseline=True))
        self.document["baseline_bytes"] = outcome.peak_before_main

    def profile(self) -> dict[str, Any]:
        """One traced run of the reference, outside all rounds: what the program asks of any allocator."""
        entry = self.entry(self.document["reference"])
        runs = [run for run in entry["runs"] if run["kind"] == "time" and run["knob"] is None]
        if entry["failure"] or not runs:
            return {"failure": "the reference has no runs"}
        place = self.unset(self.document["reference"])
        self.progress(self.document, f"tracing {place.arm.name}", time.monotonic() - self.started)
        return profiles.trace(self.launcher, self.request(place, memory=False), runs)

    def system_calls(self) -> dict[str, Any]:
        """One run of each arm in which every system call is counted, outside all rounds."""
        found = {}
        for name, entry in self.document["arms"].items():
            if not entry["failure"]:
                self.progress(self.document, f"counting system calls of {name}", time.monotonic() - self.started)
                found[name] = profiles.count_calls(self.launcher, self.request(self.unset(name), memory=False))
        return found

    def latencies(self) -> dict[str, Any]:
        """One run of each arm behind the latency layer, outside all rounds."""
        names = [name for name, entry in self.document["arms"].items() if not entry["failure"]]
        requests = [self.request(self.unset(name), memory=False) for name in names]

        def say(text: str) -> None:
            self.progress(self.document, f"timing single calls, {text}", time.monotonic() - self.started)

        return latency.measure(self.argv, requests, self.settings.latency, 1, self.settings.seed, say)

    def unset(self, name: str) -> Place:
        """The arm as it is without a knob turned."""
        return next(place for place in self.places if place.arm.name == name and place.knob is None)

    def round(self, kind: str, number: int) -> None:
        """Everything that still counts once, in an order nobody chose; but what all others must do too, the reference does first."""
        live = self.live(kind)
        self.random.shuffle(live)
        if self.expects(kind).status is None:
            live.sort(key=lambda place: place.key != (self.document["reference"], None))
        for position, place in enumerate(live):
            if number > 1 and time.monotonic() - self.started > self.settings.budget_s:
                return  # what this round has of an arm and of the reference still pairs
            self.progress(self.document, f"{kind} round {number}: {place.label}", time.monotonic() - self.started)
            self.one(place, kind, number, position)
            if kind != "warmup":
                self.teller.early(self.document)

    def live(self, kind: str) -> list[Place]:
        if self.entry(self.document["reference"])["failure"] and not self.swept:
            return []  # beside nobody an arm is nothing but a curve
        found = []
        for place in self.places:
            entry = self.entry(place.arm.name)
            of = self.document["reference"] if place.arm.name == CONTROL else place.arm.name
            dead = entry["failure"] or self.entry(of)["failure"] or entry["died"].get(place.knob or "", {}).get("deaths", 0) >= DEATHS_MAX
            idle = place.arm.name in (self.retired if kind == "time" else {CONTROL, *self.weighed})
            if self.waves and place.arm.name not in (*self.waves[0], self.document["reference"], CONTROL):
                idle = True
            idle = place.arm.name == CONTROL if kind == "warmup" else idle  # the reference has its own
            if not dead and not idle:
                found.append(place)
        return found

    def one(self, place: Place, kind: str, number: int, position: int) -> None:
        entry, started, stolen = self.entry(place.arm.name), time.monotonic(), machine.steal_seconds()
        facts: dict[str, Any] = {"kind": kind, "round": number, "position": position, "knob": place.knob}
        try:
            outcome = self.launcher.run(self.request(place, memory=kind == "memory", count=kind == "warmup", repeat=kind != "memory"))
        except RunFailed as e:
            self.failed(entry, place, str(e))
            return
        taken = time.monotonic() - started
        self.latest[(*place.key, kind)] = taken
        if place.arm.name == self.document["reference"]:
            self.latest.setdefault((CONTROL, place.knob, kind), taken)
        facts |= {"seconds": round(taken, 3), "steal_s": round(machine.steal_seconds() - stolen, 3), "load": machine.load()}
        facts |= outcome.facts
        if outcome.series:
            facts["series"] = [[round(t, 4), b] for t, b in outcome.series]
        times = 1 if kind == "memory" else self.settings.repeat_inside
        reason = faults.find(self.settings, self.expects(kind), outcome) or faults.measure_own(self.settings, facts, outcome, times)
        if reason is None or place.knob is None:
            entry["runs"].append(facts)
        if reason is not None:
            self.failed(entry, place, reason)

    def expects(self, kind: str) -> faults.Expected:
        return self.expected[kind == "memory" and self.settings.repeat_inside > 1]

    def failed(self, entry: dict[str, Any], place: Place, reason: str) -> None:
        """An arm that fails is out, with the reason; a value of a knob that fails is a result, and is tried again."""
        if place.knob is None:
            entry["failure"] = reason
            return
        death = entry["died"].setdefault(place.knob, {"reason": reason, "deaths": 0})
        death["deaths"] += 1

    def request(self, place: Place, memory: bool, baseline: bool = False, count: bool = False, repeat: bool = False) -> Request:
        s = self.settings
        env, argv = applied(place.sweep, place.value, place.arm, self.argv) if place.sweep else ({}, self.argv)
        if baseline:
            argv = [word for word in argv if not any("{" + k.name[1:] + "}" in word for k in s.sweeps if k.in_arguments)]
        return Request(
            argv, place.arm, memory=memory, count=count, padding=self.random.randrange(PADDING_MAX), stdin=s.stdin,
            service=s.service, env=env, baseline=baseline, timeout_s=s.timeout_s, repeat=s.repeat_inside if repeat else 1,
            keep_output=s.metric_regex is not None or s.check not in ("stdout", "exit"),
        )  # fmt: skip

    # ---- when to stop --------------------------------------------------------------

    def entry(self, name: str) -> dict[str, Any]:
        return self.document[CONTROL] if name == CONTROL else self.document["arms"][name]

    def done(self, rounds: int) -> bool:
        """One look: whether everything that was asked is decided."""
        if self.settings.fixed:
            return False
        if self.swept:
            if rounds < SWEEP_FIRST_LOOK or rounds % stats.LOOK_EVERY:
                return False
            return (
                rounds >= SWEEP_ROUNDS_ENOUGH
                if len(self.document["arms"]) == 1
                else curve_report.decided(self.document)
            )
        return stats.is_look(rounds) and self.all_decided()

    def all_decided(self) -> bool:
        """An arm that is decided leaves the time rounds; the reference and its twin stay, and what a gate waits for."""
        waiting = self.waiting("time", "memory")
        for name, verdict in analysis.verdicts(self.document).items():
            if verdict.ending != stats.CANNOT_TELL and name not in waiting and name not in self.retired:
                self.retired.add(name)
                self.teller.decided(self.document, name, "time")
        others = [name for name in analysis.others(self.document) if not self.entry(name)["failure"]]
        return all(name in self.retired for name in others)

    def hopeless(self, rounds: int) -> bool:
        """One look: whether nobody who is undecided would be decided by what is left of a budget that nobody asked for."""
        elapsed = time.monotonic() - self.started
        waits = self.settings.patient or self.settings.fixed or self.swept or self.waves or self.waiting("time", "memory")
        if waits or not stats.is_look(rounds) or elapsed < FIRST_VERDICT_S:
            return False
        left = (self.settings.budget_s - elapsed) / max(self.cost("time"), 1e-3)
        open_ = {name: v for name, v in analysis.verdicts(self.document).items() if name not in self.retired}
        self.document["gave_up"] = bool(open_) and all((v.more_rounds or 0) > HOPELESS * left for v in open_.values())
        return self.document["gave_up"]

    def waiting(self, *axes: str) -> set[str]:
        """The arms of which a gate still wants to know more on one of these axes."""
        found = [gates.parse(text, list(self.document["arms"])) for text, state in gates.states(self.document).items() if state == "open"]
        return {gate.arm for gate in found if gate.axis in axes}

    def affords(self, kind: str) -> bool:
        """Whether one more round of this kind fits; what the last memory rounds will take is kept back."""
        missing = max(0, MEMORY_ROUNDS_MIN - self.watched())
        held_back = missing * self.cost("memory") if kind == "time" else 0.0
        return time.monotonic() - self.started + self.cost(kind) + held_back <= self.settings.budget_s

    def cost(self, kind: str) -> float:
        """Seconds that a round of this kind takes, from the latest run at each place."""
        total = 0.0
        for place in self.live(kind):
            known = [self.latest[key] for k in (kind, "time", "memory", "warmup") if (key := (*place.key, k)) in self.latest]
            total += known[0] if known else 0.0
        return total

    def rounds_enough(self) -> int:
        """So many pairs can reach the level that a verdict asks for."""
        return max(stats.FIRST_LOOK, math.ceil(1 - math.log2(1 - analysis.level(self.document))))

    def memory_known(self) -> bool:
        """Whether memory needs no more rounds: every arm is decided or has the pairs for it; every point has its runs."""
        if self.settings.fixed:
            return True
        entries = [entry for entry in self.document["arms"].values() if not entry["failure"]]
        if self.swept:
            points = [point for entry in entries for point in curve_report.points(self.document, entry)]
            return all(len(point.memories) >= curve_report.POINT_ROUNDS_MIN for point in points)
        for entry in entries:
            found = None if entry["name"] == self.document["reference"] else analysis.memory_result(self.document, entry)
            if found and found["verdict"] == stats.CANNOT_TELL and found["rounds"] < self.rounds_enough():
                return False
        return True
