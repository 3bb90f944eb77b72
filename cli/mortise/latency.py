"""How long single calls of malloc and free take: the program run on each arm behind the latency layer, one document of it.

Runs of this kind are never timed as a whole: what the layer costs is measured beside them and said.
"""

import json
import os
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mortise import __version__, arms as arms_, endings, faults, formats, home, latency_file, machine, reach, symbols
from mortise.errors import Refusal, RunFailed
from mortise.latency_file import KINDS, Process
from mortise.launching import Launcher, Request, has_room

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
SLOW_S = 5e-6  # from here on a call may have been torn: no preemption was seen to take less
WINDOW_S = 10e-6  # what the kernel did in so long before a call may be taken for its doing
PAIRS = 200_000
FILE_BYTES = 65 << 20  # of a process
RECORD_BYTES, RECORDS_BYTES = 1 << 20, 256 << 20  # more than a thread's counts take, and those of a thousand threads or processes


@dataclass(frozen=True)
class Clock:
    """What the readings mean, and what they cost."""

    source: str  # tsc, or clock_gettime where the counter cannot be trusted
    why: str
    ns_per_tick: float
    step_ns: float
    empty_ns: float
    backwards: int

    def document(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def variables(self, every: int, prefix: Path) -> dict[str, str]:
        """What tells the layer where to write and how to time."""
        found = {
            "MORTISE_LATENCY": str(prefix),
            "MORTISE_LATENCY_EVERY": str(every),
            "MORTISE_LATENCY_SLOW": f"{SLOW_S * 1e9 / self.ns_per_tick:.0f}",
            "MORTISE_LATENCY_WINDOW": f"{WINDOW_S * 1e9 / self.ns_per_tick:.0f}",
        }
        return found | ({"MORTISE_LATENCY_CLOCK": self.source} if self.source != "tsc" else {})


def clock() -> Clock:
    """The CPU's counter where it is constant, the kernel's own clock, and never ran backwards; else clock_gettime."""
    facts = json.loads(helper_says())
    flags = machine.text(Path("/proc/cpuinfo"))
    kernels = machine.text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
    reasons = [f"the CPU lacks {flag}" for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    if "aarch64" == os.uname().machine:
        reasons = []  # its counter is constant by definition
    elif kernels != "tsc":
        reasons.append(f"the kernel's clock source is {kernels or 'unknown'}")
    if facts["backwards"]:
        reasons.append("it ran backwards between two CPUs")
    rate = 1e9 / facts["ticks_per_s"]
    if reasons:
        return Clock("clock_gettime", "; ".join(reasons), 1.0, facts["step_ticks"] * rate, 0.0, facts["backwards"])
    return Clock("tsc", "constant and synchronous", rate, facts["step_ticks"] * rate, facts["empty_ticks"] * rate, 0)


def helper_says(*words: str, **variables: str) -> str:
    command = [str(home.helper("mortise-clock")), *words]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(f"mortise-clock failed: {done.stderr.strip()[-200:]}")
    return done.stdout


def overhead(measured: Clock, every: int) -> float:
    """Nanoseconds that the layer adds to a call here: tight malloc/free pairs on glibc with and without it, in turn."""
    with folder_of_records() as folder:
        layered = measured.variables(every, Path(folder) / "pairs")
        layered["LD_PRELOAD"] = arms_.preload(str(home.helper("mortise-latency.so")))
        both = [(helper_says("pairs", str(PAIRS)), helper_says("pairs", str(PAIRS), **layered)) for _ in range(3)]
    plain, behind = (min(float(pair[i]) for pair in both) for i in (0, 1))
    return max(behind - plain, 0.0)


def folder_of_records() -> tempfile.TemporaryDirectory:
    """In memory where possible, which in a container may be little: a page of a file on disk may fault while it is being written back."""
    memory = Path("/dev/shm")
    fits = os.access(memory, os.W_OK) and has_room(memory, RECORDS_BYTES)
    return tempfile.TemporaryDirectory(prefix="mortise-latency-", dir=memory if fits else None, ignore_cleanup_errors=True)


Say = Callable[[str], None]


def measure(argv: list[str], requests: list[Request], every: int, rounds: int, seed: int, say: Say) -> dict[str, Any]:
    """Every request, one an arm, `rounds` times, in random order."""
    launcher, order, begun = Launcher(), random.Random(seed), time.monotonic()
    measured = clock()
    cost, steal = overhead(measured, every), machine.steal_seconds()
    found: dict[str, dict[str, Any]] = {r.arm.name: {"runs": [], "processes": [], "failure": None} for r in requests}
    for number in range(rounds):
        for request in order.sample(requests, len(requests)):
            entry = found[request.arm.name]
            if entry["failure"]:
                continue
            say(f"round {number + 1} of {rounds}: {request.arm.name}")
            try:
                facts, processes = run(launcher, request, measured, every)
            except Refusal as e:
                entry["failure"] = str(e)
                continue
            entry["runs"].append(facts)
            entry["processes"] += processes
            entry["failure"] = failure(request.arm, facts, processes)
    return {
        "schema": formats.LATENCY, "mortise": __version__, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "argv": argv,
        "settings": {"every": every, "rounds": rounds, "seed": seed}, "machine": machine.facts(),
        "clock": measured.document(), "overhead_ns": round(cost, 2),
        "steal_s": round(machine.steal_seconds() - steal, 3), "elapsed_s": round(time.monotonic() - begun, 3),
        "arms": {r.arm.name: summary(r.arm, measured, cost, **found[r.arm.name]) | {"killed_by": killers(r, found[r.arm.name]["runs"])}
                 for r in requests},
    }  # fmt: skip


def run(launcher: Launcher, request: Request, measured: Clock, every: int) -> tuple[dict[str, Any], list[Process]]:
    with folder_of_records() as folder:
        layered = replace(request, keep_output=False, latency=measured.variables(every, Path(folder) / "calls"))
        outcome = launcher.run(layered)
        facts = outcome.facts
        if not has_room(Path(folder), RECORD_BYTES):
            raise RunFailed(f"'{request.arm.name}' left no room in '{Path(folder).parent}', where calls are counted: name a folder that has room in TMPDIR")
        if -1 < resource.getrlimit(resource.RLIMIT_FSIZE)[0] < FILE_BYTES:
            raise RunFailed("calls are counted in a file of 65 MiB, mostly empty, and none may be as large here (ulimit -f)")
        if facts.get("load_status") and endings.signal_of(facts["exit_status"]) in (None, "SIGTERM"):  # else it failed since the server did
            raise RunFailed(faults.of_load(outcome))
        return facts, [process for path in sorted(Path(folder).glob("calls.*")) if (process := latency_file.read(path))]


def killers(request: Request, runs: list[dict[str, Any]]) -> list[str]:
    """The signals that ended its runs, which were cut short by them; the one that stops a server is not among them."""
    signals = {endings.signal_of(run["exit_status"]) for run in runs} - {None, "SIGTERM" if request.service else None}
    return sorted(name for name in signals if name)


def failure(arm: arms_.Arm, facts: dict[str, Any], processes: list[Process]) -> str | None:
    """Why a run says nothing about this arm. What a program's exit status means is the program's business."""
    if work := reach.worker(facts):
        return f"no call came by of what does the work: {work}"
    if not any(p.calls[:-1].any() for p in processes):
        return f"no call came by: the program took no malloc from the loader, and {endings.describe(facts['exit_status'])}"
    wrong = [p.serves for p in processes if arms_.served_by(arm, p.serves) is False]
    return f"malloc came from {wrong[0]}" if len(wrong) == len(processes) else None


def summary(
    arm: arms_.Arm, measured: Clock, cost: float, runs: list[dict], processes: list[Process], failure: str | None
) -> dict[str, Any]:
    cpu, wall, faults = (sum(r[key] for r in runs) for key in ("cpu_s", "wall_s", "minor_faults"))
    calls = sum(int(p.calls[:-1].sum()) for p in processes)
    share = calls * cost * 1e-9 / cpu if cpu > 0 else 0.0
    return arm.document() | {
        "failure": failure, "served_by": sorted({p.serves for p in processes}), "runs": len(runs),
        "processes": len(processes), "threads": sum(p.threads for p in processes),
        "untimed_threads": sum(p.untimed_threads for p in processes), "backwards": sum(p.backwards for p in processes),
        "exit_status": [r["exit_status"] for r in runs], "left_behind": left_behind(runs), "unreached": reach.busiest(runs), "cpu_s": round(cpu, 6), "wall_s": round(wall, 6),
        "minor_faults": faults, "layer_share": round(share, 4),
        "kinds": {kind: kind_of(i, processes, measured) for i, kind in enumerate(KINDS)},
        "slow": told((c for p in processes for c in p.slow), measured),
        "torn": told((c for p in processes for c in p.torn_calls), measured),
    }  # fmt: skip


def left_behind(runs: list[dict[str, Any]]) -> int:
    """How many processes went on at most when their program had ended; those of a server are ended with it."""
    return max((run["left_behind"] for run in runs if "load_status" not in run), default=0)


def kind_of(index: int, processes: list[Process], measured: Clock) -> dict[str, Any]:
    counts, torn = (sum((getattr(p, name)[index] for p in processes), np.zeros(0, np.int64) if not processes else 0)
                    for name in ("counts", "torn"))  # fmt: skip
    parts = processes[0].parts if processes else 1

    def ns(ticks: float) -> float:
        return round(float(ticks) * measured.ns_per_tick, 1)

    def histogram(of: Any) -> list[list[float]]:
        return [[ns(latency_file.greatest(b, parts)), int(of[b])] for b in np.flatnonzero(of)]

    kept = histogram(counts)
    worst = ns(max((int(p.worst[index]) for p in processes), default=0))
    timed, counted = sum(int(p.timed[index]) for p in processes), int(np.sum(counts)) + int(np.sum(torn))
    return {
        "calls": sum(int(p.calls[index]) for p in processes), "timed": timed, "torn": int(np.sum(torn)),
        "mean_ns": ns(sum(int(p.ticks[index]) for p in processes) / counted) if counted else None,
        "percentiles_ns": percentiles(kept, worst, timed * int(np.sum(counts)) / max(counted, 1)), "worst_ns": worst,
        "worst_torn_ns": ns(max((int(p.worst_torn[index]) for p in processes), default=0)),
        "histogram": kept, "torn_histogram": histogram(torn),
    }  # fmt: skip


def percentiles(histogram: list[list[float]], worst: float, timed: float | None = None) -> dict[str, float]:
    """By share; a share that fewer timed calls than one lie above is left out: nothing is known of it. Of the calls of the histogram
    `timed` were; unless told, all."""
    total = sum(count for _, count in histogram)
    timed = total if timed is None else timed
    reached = np.cumsum([count for _, count in histogram])
    found = {}
    for share in SHARES:
        if total and timed * (1 - share) >= 1 - 1e-9:
            found[f"{share:g}"] = min(histogram[int(np.searchsorted(reached, share * total - 1e-6))][0], worst)
    return found


def told(calls: Any, measured: Clock, most: int = 10) -> list[dict[str, Any]]:
    """The slowest calls, in words and with their places."""
    found = []
    for call in sorted(calls, key=lambda c: -c["ticks"])[:most]:
        found.append(
            {"kind": call["kind"], "ns": round(call["ticks"] * measured.ns_per_tick, 1), "bytes": call["bytes"] or None,
             "cause": cause(call), "site": symbols.place(call["module"], call["offset"])}
            | {key: call[key] for key in ("kernel_calls", "minor_faults", "major_faults", "waits", "preemptions")}
            | {"window_ns": round(call["window"] * measured.ns_per_tick, 1)}
        )  # fmt: skip
    return found


def cause(call: dict[str, Any]) -> str:
    """What the kernel did to the thread during the call, the weightiest first."""
    said = []
    if call["preemptions"]:
        said.append("preemption")
    asked = [name for name in call["kernel_calls"] if name != "sched_yield"]
    if call["waits"] or "sched_yield" in call["kernel_calls"]:
        said.append("contention (it waited)" if call["waits"] else "contention (it yielded)")
    if asked:
        said.append("system call (" + ", ".join(asked) + ")")
    if call["major_faults"]:
        said.append(f"page fault ({call['major_faults']} from disk)")
    if call["minor_faults"]:
        said.append("page fault" if call["minor_faults"] == 1 else f"{call['minor_faults']} page faults")
    return ", ".join(said) or "none seen"
