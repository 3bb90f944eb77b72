"""Whether an arm's allocator reached the processes that did the work: what LD_PRELOAD does not arrive at runs alike in every arm.

The probe tells of each process that it is loaded into. Of those that it is not loaded into, since their environment was cleared, the
launcher tells where it follows the program: in warm-up runs, memory runs and those of `mortise latency`.
"""

from pathlib import Path

import numpy as np

from mortise import formats
from mortise.figures import Document

SERVED_MIN = 0.1  # where less of the CPU time is served, nothing is compared
CPU_WORTH_SAYING, BYTES_WORTH_SAYING = 0.02, 1 << 20
WHY = "where LD_PRELOAD did not arrive: who starts it clears the environment (env -i, sudo), or it is static or set-user-id"
NOBODY = {"cpu_share": 0.0, "program": None, "largest": None, "peak_rss_bytes": 0}


def read(path: Path, cpu_s: float) -> Document | None:
    """The processes without the probe: the share of CPU time that they took, the program of the one that took most of it, and the program
    and the peak of the largest. None where nobody looked.
    """
    if not path.exists():
        return None
    rows = [line.split("\t", 2) for line in path.read_text(errors="replace").splitlines()]
    told = [(float(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3]
    if not told:
        return dict(NOBODY)
    busiest, largest = max(told), max(told, key=lambda row: row[1])
    share = min(1.0, sum(cpu for cpu, _, _ in told) / cpu_s) if cpu_s > 0 else 1.0
    return {"cpu_share": round(share, 4), "program": busiest[2], "largest": largest[2], "peak_rss_bytes": largest[1]}


def of_run(run: Document) -> Document:
    return run.get("unreached") or NOBODY


def served(entry: Document) -> float | None:
    """By the runs that were followed, which know of processes without the probe as well; by all where none was."""
    runs = [run for run in entry["runs"] if run["served"] is not None]
    values = [run["served"] for run in runs if run.get("unreached")] or [run["served"] for run in runs]
    return float(f"{np.mean(values):.6g}") if values else None


def worker(run: Document) -> str | None:
    """What did nearly all of the work, where that is beyond reach."""
    share = of_run(run)["cpu_share"]
    return f"{formats.percent(share)} of the CPU time is that of {of_run(run)['program']}, {WHY}" if share > 1 - SERVED_MIN else None


def fault(facts: Document) -> str | None:
    """Why a run says nothing about its arm."""
    if facts["served"] is None:
        return None
    if work := worker(facts):
        return f"was not served: {work}"
    return f"was not served: malloc came from {', '.join(facts['malloc_from']) or 'an unknown place'}" if facts["served"] == 0 else None


def busiest(runs: list[Document]) -> Document:
    return max(map(of_run, runs), key=lambda beyond: beyond["cpu_share"], default=NOBODY)


def part(beyond: Document) -> str | None:
    """What did some of the work beyond reach."""
    share = beyond["cpu_share"]
    return f"{formats.percent(share)} of the CPU time had no arm's malloc, most of it that of {beyond['program']}, {WHY}" if share >= CPU_WORTH_SAYING else None


def warnings(document: Document) -> list[str]:
    """What did some of the work, or held much of the memory, on the same malloc in every arm."""
    runs = [run for e in document["arms"].values() if not e["failure"] for run in e["runs"] if run["served"] is not None and run.get("unreached")]
    found = []
    if line := part(busiest(runs)):
        found.append(f"warning: {line}")
    base = document["baseline_bytes"] + BYTES_WORTH_SAYING
    large = [r["unreached"] for r in runs if r["kind"] == "memory" and r["unreached"]["peak_rss_bytes"] - base > (r["peak_rss_bytes"] - base) / 2]
    if large and (most := max(large, key=lambda u: u["peak_rss_bytes"]))["peak_rss_bytes"] > base:
        found.append(f"warning: {formats.size(most['peak_rss_bytes'])} were held without any arm's malloc by {most['largest']}, {WHY}")
    return found


def partly(entry: Document) -> float | None:
    """The share of its processes that an arm served, where the probe saw some on another malloc."""
    shares = [run["served"] / (1 - of_run(run)["cpu_share"]) for run in entry["runs"] if run["served"]]
    return next((share for share in shares if share < 1 - 1e-6), None)
