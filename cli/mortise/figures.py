"""The figures of a comparison's runs that decide: which runs count where, and what time and memory mean there."""

from collections.abc import Callable
from statistics import median
from typing import Any

Document = dict[str, Any]
FLOOR_BYTES = 64 * 1024


def runs_of(entry: Document, kind: str, knob: str | None = None) -> list[Document]:
    """The runs of one kind at one value of the arm's knob; None is the unset one, the default point."""
    return [run for run in entry["runs"] if run["kind"] == kind and run.get("knob") == knob]


def rounds_of(document: Document, kind: str) -> set[int]:
    return {run["round"] for entry in document["arms"].values() for run in entry["runs"] if run["kind"] == kind}


def time_of(document: Document) -> Callable[[dict[str, Any]], float]:
    """The figure that decides about time; for a program's own number, where more is better, its inverse."""
    settings = document["settings"]
    if settings["metric_regex"]:
        return (lambda run: 1.0 / run["metric"]) if more_is_better(document) else (lambda run: run["metric"])
    key = {"cpu": "cpu_s", "wall": "wall_s"}[settings["time"]]
    return lambda run: max(run[key], 1e-6)


def more_is_better(document: Document) -> bool:
    """Whether the program's own number decides and is the better the larger: then what is compared is its inverse."""
    settings = document["settings"]
    return bool(settings["metric_regex"]) and settings.get("metric_better", "more") == "more"


def as_shown(document: Document, axis: str, result: Document) -> Document:
    """A result in the direction of the figures beside it: of a number that is the better the larger a better one is more."""
    if axis != "time" or not more_is_better(document):
        return result
    return result | {"ratio": 1 / result["ratio"], "low": 1 / result["high"], "high": 1 / result["low"]}


MEMORIES = {"peak": "peak_rss_bytes", "avg": "avg_rss_bytes", "anon": "peak_anon_bytes"}


def memory_key(document: Document) -> str:
    """Which figure of a run is its memory."""
    return MEMORIES[document["settings"]["memory"]]


def memory_base(document: Document) -> float:
    """What is taken off it: the program's bare image, the same for every arm; anonymous memory holds nothing of that."""
    return 0 if document["settings"]["memory"] == "anon" else document["baseline_bytes"]


def memory_of(document: Document) -> Callable[[dict[str, Any]], float]:
    key, base = memory_key(document), memory_base(document)
    return lambda run: max(run[key] - base, FLOOR_BYTES)


OFF_MAX = 0.01  # how far the kernel's running count of a peak may be from the exact one


def peaks_are_exact(document: Document, entries: list[Document]) -> bool:
    """Whether time rounds know peaks as memory rounds do: each run was one process whose peak was read at its exit, and the count that
    the kernel keeps for time rounds, which is off by more the more cores there are, agrees with those.
    """
    watched = [run for entry in entries for run in entry["runs"] if run["kind"] == "memory"]
    single = all(run["processes"] == 1 and run["peak_source"] == "exit_stop" for run in watched)
    return document["settings"]["memory"] == "peak" and bool(watched) and single and all(map(counts_agree, entries))


def counts_agree(entry: Document) -> bool:
    """Whether the median peak of time rounds lies where memory rounds found theirs, at each value of the arm's knob."""
    for knob in {run.get("knob") for run in entry["runs"]}:
        counted, exact = ([run["peak_rss_bytes"] for run in runs_of(entry, kind, knob)] for kind in ("time", "memory"))
        if counted and exact and not min(exact) * (1 - OFF_MAX) <= median(counted) <= max(exact) * (1 + OFF_MAX):
            return False
    return True


def sampling_duty(document: Document) -> float | None:
    """The share of the memory rounds' time that the sampling took, in CPU seconds over wall seconds; None without such rounds."""
    watched = [run for entry in document["arms"].values() for run in entry["runs"] if run["kind"] == "memory" and run["samples"]]
    return sum(run["sampling_cost_s"] for run in watched) / sum(run["wall_s"] for run in watched) if watched else None
