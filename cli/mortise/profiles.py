"""The allocation profile of a program: what it asks for, as one traced run counted it, and what the tracing cost."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mortise import formats
from mortise.errors import RunFailed
from mortise.launching import Launcher, Request

PATIENCE = 20.0  # a traced run may take this many times as long as a plain one


def trace(launcher: Launcher, request: Request, plain_runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all processes of one traced run together; a run that could not be traced says why."""
    plain = float(np.median([run["cpu_s"] for run in plain_runs]))
    longest = max(run.get("life_s", run["wall_s"]) for run in plain_runs)
    request.timeout_s = min(request.timeout_s, 10.0 + PATIENCE * longest)
    with tempfile.TemporaryDirectory(prefix="mortise-trace-") as folder:
        request.trace = Path(folder) / "trace"
        try:
            facts = launcher.run(request).facts
        except RunFailed as e:
            return {"failure": str(e)}
        parts = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("trace.*")) if path.stat().st_size]
    if not parts:
        return {"failure": "the traced run left no counts: the program is static, or ended by a signal or without its destructors"}
    whole = {key: merged(key, [part[key] for part in parts]) for key in parts[0]}
    cost = float(f"{facts['cpu_s'] / max(plain, 1e-6):.4g}")
    return {"failure": None, "arm": request.arm.name, "processes": len(parts), "cost": cost} | whole


def count_calls(launcher: Launcher, request: Request) -> dict[str, Any]:
    """System calls of one run of an arm, all its processes together, by name."""
    with tempfile.TemporaryDirectory(prefix="mortise-calls-") as folder:
        counts = Path(folder) / "calls"
        try:
            facts = launcher.run(replace(request, calls=counts)).facts
        except RunFailed as e:
            return {"failure": str(e)}
        if not counts.exists():
            return {"failure": f"it could not be traced (exit status {facts['exit_status']})"}
        return {"failure": None, "counts": json.loads(counts.read_text())}


def merged(key: str, values: list[Any]) -> Any:
    if isinstance(values[0], list):
        return [int(n) for n in np.sum(values, axis=0)]
    return max(values) if key.startswith("peak_") else sum(values)


def below(histogram: list[int], share: float) -> int:
    """The upper edge of the bucket in which that share of the counts is reached; bucket n ends at 2^n - 1."""
    reached = np.cumsum(histogram)
    return (1 << int(np.searchsorted(reached, share * reached[-1]))) - 1 if reached[-1] else 0


def several(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{ending * (count != 1)}"


def lines(profile: dict[str, Any] | None) -> list[str]:
    """What the program asks for, in three lines."""
    if not profile:
        return []
    if profile["failure"]:
        return [f"profile: {profile['failure']}"]
    if profile["allocations"] == 0:
        return [f"profile: no allocations in {several(profile['processes'], 'process', 'es')}"]
    made = max(profile["allocations"], 1)
    freed = max(profile["frees"], 1)
    return [
        f"profile: {profile['allocations']} allocations in {several(profile['threads'], 'thread')} of "
        f"{several(profile['processes'], 'process', 'es')}; half are at most {formats.size(below(profile['sizes'], 0.5))}, 99 % at most "
        f"{formats.size(below(profile['sizes'], 0.99))}; at most {formats.size(profile['peak_bytes'])} live",
        f"         half are freed within {below(profile['ages'], 0.5)} further allocations; "
        f"{formats.percent(profile['cross_thread'] / freed)} by another thread; "
        f"{formats.percent(profile['aligned'] / made)} ask for an alignment; "
        f"{formats.percent(profile['resized'] / made)} come from realloc",
        f"         (one traced run of {profile['arm']}, which took {profile['cost']:.3g} times the CPU time)",
    ]
