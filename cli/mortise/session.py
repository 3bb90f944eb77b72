"""The measuring itself: baseline, warm-up, rounds in random order, memory rounds apart, until decided or out of budget.

What is measured goes into a plain document (formats.COMPARE without its conclusions); `analysis` turns that into
verdicts, both while measuring, to know when to stop, and afterwards, so that a report can be made again from the file.
"""

import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import __version__, analysis, formats, machine, stats
from mortise.arms import Arm
from mortise.errors import RunFailed
from mortise.launching import Launcher, Outcome, Request, Service

CONTROL = "control"
MEMORY_EVERY = 4
MEMORY_ROUNDS_MIN = 3
PADDING_MAX = 4096


@dataclass
class Settings:
    """How to compare: everything the command line can say."""

    time: str = "cpu"
    memory: str = "peak"
    resolve: float = 0.02
    budget_s: float = 300.0
    rounds_max: int = 200
    warmup: int = 1
    check: str = "stdout"
    metric_regex: str | None = None
    metric_better: str = "more"
    seed: int = 0
    timeout_s: float = 3600.0
    stdin: Path | None = None
    service: Service | None = None
    control: bool = True
    env: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        service = self.service
        return {
            "time": self.time,
            "memory": self.memory,
            "resolve": self.resolve,
            "budget_s": self.budget_s,
            "rounds_max": self.rounds_max,
            "warmup": self.warmup,
            "check": self.check,
            "metric_regex": self.metric_regex,
            "metric_better": self.metric_better,
            "seed": self.seed,
            "level": stats.LEVEL,
            "stdin": str(self.stdin) if self.stdin else None,
            "ready": service.ready if service else None,
            "load": service.load if service else None,
            "stop": service.stop if service else None,
        }


Progress = Callable[[dict[str, Any], str, float], None]


class Session:
    """One comparison from its first run to the end of its budget."""

    def __init__(
        self, argv: list[str], arms: list[Arm], settings: Settings, preflight: dict[str, Any], progress: Progress
    ):
        self.argv, self.settings, self.progress = argv, settings, progress
        self.arms = list(arms)
        self.random = random.Random(settings.seed)
        self.launcher = Launcher()
        self.started = time.monotonic()
        self.expected: dict[str, str] = {}
        self.retired: set[str] = set()
        self.document: dict[str, Any] = {
            "schema": formats.COMPARE,
            "mortise": __version__,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "argv": argv,
            "settings": settings.document(),
            "machine": machine.facts(),
            "preflight": preflight,
            "reference": arms[0].name,
            "baseline_bytes": 0,
            "arms": {arm.name: arm.document() | {"failure": None, "runs": []} for arm in arms},
        }
        if settings.control:
            twin = Arm(CONTROL, arms[0].kind, arms[0].library, arms[0].env, arms[0].argv)
            self.arms.append(twin)
            self.document[CONTROL] = twin.document() | {"failure": None, "runs": []}

    # ---- the protocol ----------------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        steal = machine.steal_seconds()
        self.baseline()
        for number in range(self.settings.warmup):
            self.round("warmup", number)
        rounds = memory_rounds = 0
        while rounds < self.settings.rounds_max and self.affords("time", rounds):
            rounds += 1
            self.round("time", rounds)
            if rounds % MEMORY_EVERY == 0 and self.affords("memory", rounds):
                memory_rounds += 1
                self.round("memory", memory_rounds)
            if stats.is_look(rounds) and self.all_decided():
                break
        while memory_rounds < self.memory_target() and (
            memory_rounds < MEMORY_ROUNDS_MIN or self.affords("memory", rounds)
        ):
            memory_rounds += 1
            self.round("memory", memory_rounds)
        self.document["elapsed_s"] = round(time.monotonic() - self.started, 3)
        self.document["steal_s"] = round(machine.steal_seconds() - steal, 3)
        return self.document

    def baseline(self) -> None:
        """What the program's image holds before main under whatever it ships with: the same figure is taken off every
        arm.
        """
        outcome = self.launcher.run(self.request(Arm("baseline", "shipped"), memory=False, baseline=True))
        self.document["baseline_bytes"] = outcome.peak_before_main

    def round(self, kind: str, number: int) -> None:
        """Every arm that still counts once, in an order nobody chose."""
        live = [
            arm
            for arm in self.arms
            if not self.entry(arm)["failure"] and (kind == "memory" or arm.name not in self.retired)
        ]
        if kind == "memory":
            live = [arm for arm in live if arm.name != CONTROL]
        self.random.shuffle(live)
        for position, arm in enumerate(live):
            self.progress(self.document, f"{kind} round {number}: {arm.name}", time.monotonic() - self.started)
            self.one(arm, kind, number, position)

    def one(self, arm: Arm, kind: str, number: int, position: int) -> None:
        entry = self.entry(arm)
        started = time.monotonic()
        try:
            outcome = self.launcher.run(self.request(arm, memory=kind == "memory"))
        except RunFailed as e:
            entry["failure"] = str(e)
            return
        facts = {
            "kind": kind,
            "round": number,
            "position": position,
            "seconds": round(time.monotonic() - started, 3),
        } | outcome.facts
        if outcome.series:
            facts["series"] = [[round(t, 4), b] for t, b in outcome.series]
        entry["runs"].append(facts)
        entry["failure"] = self.fault(arm, outcome) or self.measure_own(arm, facts, outcome)

    def request(self, arm: Arm, memory: bool, baseline: bool = False) -> Request:
        s = self.settings
        return Request(
            self.argv,
            arm,
            memory=memory,
            padding=self.random.randrange(PADDING_MAX),
            stdin=s.stdin,
            service=s.service,
            env=s.env,
            baseline=baseline,
            timeout_s=s.timeout_s,
        )

    # ---- is this run what it should be? ----------------------------------------------------------------------------

    def fault(self, arm: Arm, outcome: Outcome) -> str | None:
        """Why this arm cannot be compared: it failed, was not served, or did something else than the first arm did."""
        status = outcome.facts["exit_status"]
        if self.settings.service is not None:
            if outcome.facts.get("load_status"):
                return f"the load ended with status {outcome.facts['load_status']}: {first_line(outcome.load_output)}"
            status = 0 if status in (0, 128 + 15) else status
        expected = self.expected.setdefault("status", str(status))
        if str(status) != expected or status >= 128 or status in (126, 127):
            return f"ended with {describe(status)}{tail(outcome.stderr_tail)}"
        if outcome.facts["served"] is not None and outcome.facts["served"] == 0:
            return f"was not served: malloc came from {', '.join(outcome.facts['malloc_from']) or 'an unknown place'}"
        if self.settings.check == "stdout" and self.settings.service is None:
            wanted = self.expected.setdefault("stdout", outcome.facts["stdout_sha256"])
            if outcome.facts["stdout_sha256"] != wanted:
                return "printed something else than the first run (use --check exit if that is the program's way)"
        return None

    def measure_own(self, arm: Arm, facts: dict[str, Any], outcome: Outcome) -> str | None:
        """The program's own number, taken from what it or its load printed."""
        if self.settings.metric_regex is None:
            return None
        text = outcome.load_output or outcome.stdout.decode(errors="replace")
        match = re.search(self.settings.metric_regex, text)
        try:
            facts["metric"] = (
                float((match[1] if match and match.groups() else match[0]).replace(",", "")) if match else None
            )
        except ValueError:
            facts["metric"] = None
        return (
            None
            if facts["metric"]
            else f"printed nothing that '{self.settings.metric_regex}' finds as a number above 0"
        )

    # ---- when to stop ----------------------------------------------------------------------------------------------

    def entry(self, arm: Arm) -> dict[str, Any]:
        return self.document[CONTROL] if arm.name == CONTROL else self.document["arms"][arm.name]

    def all_decided(self) -> bool:
        """Looks at every arm; an arm that is decided leaves the time rounds, the reference and its twin stay."""
        for name, verdict in analysis.verdicts(self.document).items():
            if verdict.ending != stats.CANNOT_TELL:
                self.retired.add(name)
        others = [arm.name for arm in self.arms[1:] if arm.name != CONTROL and not self.entry(arm)["failure"]]
        return all(name in self.retired for name in others)

    def affords(self, kind: str, rounds: int) -> bool:
        """Whether one more round of this kind fits; what the last memory rounds will take is kept back."""
        per_round = {k: self.cost(k) for k in ("time", "memory")}
        done = len(analysis.rounds_of(self.document, "memory"))
        held_back = (
            max(0, MEMORY_ROUNDS_MIN - done) * (per_round["memory"] or per_round["time"]) if kind == "time" else 0
        )
        return time.monotonic() - self.started + per_round[kind] + held_back <= self.settings.budget_s or rounds == 0

    def cost(self, kind: str) -> float:
        """Seconds that a round of this kind has taken, from each live arm's latest run."""
        total = 0.0
        for arm in self.arms:
            if arm.name in self.retired or self.entry(arm)["failure"]:
                continue
            runs = self.entry(arm)["runs"]
            same = [r for r in runs if r["kind"] == kind] or runs
            total += same[-1]["seconds"] if same else 0.0
        return total

    def memory_target(self) -> int:
        """Enough memory rounds for the level that a verdict asks for, where time rounds do not tell about memory."""
        return math.ceil(1 - math.log2(1 - analysis.level(self.document)))


def describe(status: int) -> str:
    import signal as signals

    if status > 128:
        try:
            return f"signal {signals.Signals(status - 128).name}"
        except ValueError:
            pass
    return f"exit status {status}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it printed nothing")[:160]


def tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:160]}" if lines else ""
