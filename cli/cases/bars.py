"""The bars of a comparison that need real runs, measured on this machine: bars.py FOLDER SERVER TOUCH [PART...]

    sampling   memory rounds against time rounds of the same program: does watching it change it?
    layer      the latency layer in front of a server, one call in 64 and every call: what does timing cost?
    itself     whole comparisons of a program with itself: how often does one of two identical arms win?

Runs are paired and interleaved, intervals are those of every comparison (99 %).
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mortise import analysis, latency, stats  # noqa: E402
from mortise.arms import Arm  # noqa: E402
from mortise.launching import Launcher, Request  # noqa: E402
from mortise.session import Session, Settings  # noqa: E402

PAIRS, SESSIONS = 40, 20
ARM = Arm("shipped", "shipped")


def paired(variants: list[Any], pairs: int) -> list[list[float]]:
    """CPU seconds of each variant, every round in an order of its own."""
    launcher, found = Launcher(), [[] for _ in variants]
    for _ in range(pairs):
        for place in random.sample(range(len(variants)), len(variants)):
            found[place].append(launcher.run(variants[place]()).facts)
    return found


def ratio(facts: list[dict[str, Any]], reference: list[dict[str, Any]]) -> dict[str, float]:
    found = stats.interval([f["cpu_s"] for f in facts], [f["cpu_s"] for f in reference])
    return {"ratio": found.ratio, "low": found.low, "high": found.high, "rounds": found.rounds}


def sampling(server: list[str], touch: list[str]) -> dict[str, Any]:
    found = {}
    for name, argv in (("server", server), ("touch", touch)):
        plain, watched = paired([lambda a=argv: Request(a, ARM), lambda a=argv: Request(a, ARM, memory=True)], PAIRS)
        duty = max(f["sampling_cost_s"] / f["wall_s"] for f in watched)
        found[name] = ratio(watched, plain) | {"duty_at_most": duty}
    return found


def layer(server: list[str], _: list[str]) -> dict[str, Any]:
    measured = latency.clock()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:

        def behind(every: int) -> Any:
            return lambda: Request(server, ARM, latency=measured.variables(every, Path(folder) / "calls"))

        plain, sampled, full = paired([lambda: Request(server, ARM), behind(64), behind(1)], PAIRS)
    costs = {f"one in {n}": {"ns_per_call": latency.overhead(measured, n)} for n in (64, 1)}
    return {name: cost | ratio(facts, plain) for (name, cost), facts in zip(costs.items(), (sampled, full), strict=True)}


def itself(server: list[str], _: list[str]) -> dict[str, Any]:
    false = []
    for seed in range(SESSIONS):
        arms = [Arm("a", "environment", env={"X": "1"}), Arm("b", "environment", env={"X": "2"})]
        settings = Settings(rounds_max=14, budget_s=30, seed=seed, warmup=1)
        document = analysis.conclude(Session(server, arms, settings, {"findings": []}, lambda *_: None).run())
        ending = document["arms"]["b"]["vs_reference"]["time"]["verdict"]
        if ending in (stats.FASTER, stats.SLOWER):
            false.append(seed)
    return {"sessions": SESSIONS, "false_verdicts": len(false), "seeds": false}


PARTS = {"sampling": sampling, "layer": layer, "itself": itself}


def main(words: list[str]) -> None:
    if len(words) < 3 or not set(words[3:]) <= set(PARTS):
        raise SystemExit(f"bars: expected FOLDER SERVER TOUCH [{'|'.join(PARTS)}]..., got {' '.join(words) or 'nothing'}")
    folder, server, touch = Path(words[0]), words[1].split(), words[2].split()
    kept = folder / "bars.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for part in words[3:] or PARTS:
        begun = time.monotonic()
        found[part] = PARTS[part](server, touch)
        print(f"{part} ({time.monotonic() - begun:.0f} s):")
        entries = found[part].items() if part != "itself" else [("itself", found[part])]
        for name, facts in entries:
            print(f"  {name}: " + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items()))
        kept.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
