"""The bars of a comparison that need real runs, measured on this machine: bars.py FOLDER SECONDS SERVER TOUCH [PART...]

    sampling   memory rounds against time rounds of the same program: does watching it change it?
    layer      the latency layer in front of a server, one call in 64: what does timing cost? And every call, more roughly
    itself     whole comparisons of a program with itself: how often does one of two identical arms win?

Runs are paired and interleaved, intervals are those of every comparison (99 %). How many there are is fixed beforehand; what a slice of
SECONDS does not reach stays to be done, and bars.json in FOLDER keeps what was measured for the next slice.
"""

import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
from mortise import analysis, latency, stats  # noqa: E402
from mortise.arms import Arm  # noqa: E402
from mortise.launching import Launcher, Request  # noqa: E402
from mortise.session import Session, Settings  # noqa: E402

SESSIONS, QUADS, LAYER = 20, 200, {1: 10, 64: 400}
ARM = Arm("shipped", "shipped")


def summary(found: stats.Interval) -> dict[str, float]:
    return {"ratio": found.ratio, "low": found.low, "high": found.high, "rounds": found.rounds}


Run = Callable[[bool], dict[str, float]]


def quad(run: Run) -> float:
    """Two plain and two changed runs, the same kind outside: what drifts evenly over the four cancels in the log ratio."""
    outer, logs = random.random() < 0.5, {False: 0.0, True: 0.0}
    for changed in (outer, not outer, not outer, outer):
        logs[changed] += math.log(run(changed)["cpu_s"]) / 2
    return logs[True] - logs[False]


def sampling(server: list[str], touch: list[str], before: dict[str, Any], until: float) -> dict[str, Any]:
    launcher, found = Launcher(), {}
    programs = {"server": server, "touch": touch}
    measured = {name: before.get(name, {"quads": [], "duties": []}) for name in programs}

    def run(name: str, watched: bool) -> dict[str, float]:
        facts = launcher.run(Request(programs[name], ARM, memory=watched)).facts
        if watched:
            measured[name]["duties"].append(facts["sampling_cost_s"] / facts["wall_s"])
        return facts

    while min(len(kept["quads"]) for kept in measured.values()) < QUADS and time.monotonic() < until:
        for name, kept in measured.items():
            kept["quads"].append(quad(partial(run, name)))
    for name, kept in measured.items():
        middle = stats.of_differences(np.array(kept["quads"]))
        found[name] = summary(middle) | {"duty_at_most": max(kept["duties"]), "still_to_do": QUADS - len(kept["quads"])} | kept
    return found


def layer(server: list[str], _: list[str], before: dict[str, Any], until: float) -> dict[str, Any]:
    clock, launcher, found = latency.clock(), Launcher(), {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:

        def run(variables: dict[str, str], layered: bool) -> dict[str, float]:
            facts = launcher.run(Request(server, ARM, latency=variables if layered else None)).facts
            for file in Path(folder).iterdir():
                file.unlink()
            return facts

        for every, wanted in LAYER.items():
            name, variables = f"one in {every}", clock.variables(every, Path(folder) / "calls")
            quads = before.get(name, {}).get("quads", [])
            while len(quads) < wanted and time.monotonic() < until:
                quads.append(quad(partial(run, variables)))
            if quads:
                behind = summary(stats.of_differences(np.array(quads)))
                behind |= {"still_to_do": wanted - len(quads), "quads": quads}
                found[name] = {"ns_per_call": latency.overhead(clock, every)} | behind
    return found


def itself(server: list[str], _: list[str], before: dict[str, Any], until: float) -> dict[str, Any]:
    endings = before.get("itself", {}).get("endings", [])
    while len(endings) < SESSIONS and time.monotonic() < until:
        arms = [Arm("a", "environment", env={"X": "1"}), Arm("b", "environment", env={"X": "2"})]
        settings = Settings(rounds_max=14, budget_s=30, seed=len(endings), warmup=1)
        document = analysis.conclude(Session(server, arms, settings, {"findings": []}, lambda *_: None).run())
        endings.append(document["arms"]["b"]["vs_reference"]["time"]["verdict"])
    false = sum(ending in (stats.FASTER, stats.SLOWER) for ending in endings)
    return {"itself": {"sessions": len(endings), "false_verdicts": false, "still_to_do": SESSIONS - len(endings), "endings": endings}}


PARTS = {"sampling": sampling, "layer": layer, "itself": itself}


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(words: list[str]) -> None:
    if len(words) < 4 or not words[1].isdigit() or not set(words[4:]) <= set(PARTS):
        raise SystemExit(f"bars: expected FOLDER SECONDS SERVER TOUCH [{'|'.join(PARTS)}]..., got {' '.join(words) or 'nothing'}")
    folder, until = Path(words[0]), time.monotonic() + int(words[1])
    server, touch = words[2].split(), words[3].split()
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "bars.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for part in words[4:] or PARTS:
        if time.monotonic() > until:
            print(f"{part}: still to be measured")
            continue
        begun = time.monotonic()
        found[part] = PARTS[part](server, touch, found.get(part, {}), until)
        print(f"{part} ({time.monotonic() - begun:.0f} s):")
        for name, facts in found[part].items():
            print(f"  {name}: " + ", ".join(f"{k} {shown(v)}" for k, v in facts.items() if not isinstance(v, list)))
        kept.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
