"""What the latency layer leaves behind, one file a process: the layout of cli/latency/record.hpp, read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mortise.errors import RunFailed

MAGIC = b"mortise-latency3"
KINDS = ("malloc", "calloc", "realloc", "aligned", "free", "empty")
KERNEL_CALLS = ("mmap", "munmap", "madvise", "mprotect", "mremap", "brk", "another system call", "sched_yield")
PATH_BYTES, RECORDS_MAX = 256, 1024
HEADER = np.dtype(
    [("magic", "S16")]
    + [
        (name, "<u8")
        for name in ("header_bytes", "record_bytes", "records", "every", "is_clock_gettime", "slow_ticks", "window_ticks",
                     "pid", "kinds", "buckets", "parts", "worst", "untimed_threads")
    ]
    + [("records_used", "<u4"), ("unused", "<u4"), ("program", f"S{PATH_BYTES}"), ("serves", f"S{PATH_BYTES}"),
       ("owner", "<u4", RECORDS_MAX)]
)  # fmt: skip
CALL = np.dtype(
    [(name, "<u8") for name in ("ticks", "at", "size", "window")]
    + [(name, "<u4") for name in ("kind", "kernel_calls", "minor_faults", "major_faults", "waits", "preemptions")]
    + [("offset", "<u8"), ("module", f"S{PATH_BYTES}")]
)
SUM = np.dtype([(name, "<u8") for name in ("calls", "timed", "ticks", "worst")])


def record_type(header: Any) -> np.dtype:
    kinds, buckets, worst = (int(header[name]) for name in ("kinds", "buckets", "worst"))
    return np.dtype(
        [("examine_from", "<u8"), ("backwards", "<u8"), ("known", "<u8", 6), ("sums", SUM, kinds)]
        + [("counts", "<u8", (buckets, kinds)), ("torn", "<u8", (buckets, kinds))]
        + [("worst_torn", "<u8", kinds), ("paced_at", "<u8"), ("slow_used", "<u4"), ("torn_used", "<u4")]
        + [("slow", CALL, worst), ("torn_calls", CALL, worst)]
    )


@dataclass
class Process:
    """The counts of one process, its threads together; durations in ticks of the clock. In `counts`, `torn` and `ticks` a call is
    there as often as it counts for others: more than once where calls were so dense that fewer than asked were timed.
    """

    program: str
    serves: str
    pid: int
    threads: int
    untimed_threads: int
    parts: int
    counts: np.ndarray
    torn: np.ndarray
    calls: np.ndarray
    timed: np.ndarray
    ticks: np.ndarray
    worst: np.ndarray
    worst_torn: np.ndarray
    backwards: int
    slow: list[dict[str, Any]] = field(default_factory=list)
    torn_calls: list[dict[str, Any]] = field(default_factory=list)


def read(path: Path) -> Process | None:
    """None of a process that was ended before it had a header to count in."""
    with path.open("rb") as file:  # not mapped: a hole of it that is looked at there wants a page, and where none is left a signal ends this process
        return of(path, file)


def of(path: Path, file: BinaryIO) -> Process | None:
    head = file.read(HEADER.itemsize)
    if not any(head[: len(MAGIC)]) or len(head) < HEADER.itemsize:
        return None
    header = np.frombuffer(head, HEADER)[0]
    if header["magic"] != MAGIC or int(header["kinds"]) != len(KINDS):
        raise RunFailed(f"'{path.name}' was not left by this version's latency layer: run 'make build'")
    layout, first, stride = record_type(header), int(header["header_bytes"]), int(header["record_bytes"])
    used = int(header["records_used"])
    rows = [record(file, first + stride * n, layout) for n in range(used)]
    sums = [row["sums"] for row in rows]
    shape = (int(header["buckets"]), len(KINDS))
    process = Process(
        program=text(header["program"]), serves=text(header["serves"]), pid=int(header["pid"]), threads=used,
        untimed_threads=int(header["untimed_threads"]), parts=int(header["parts"]),
        counts=total(rows, "counts", shape).T, torn=total(rows, "torn", shape).T,
        calls=total(sums, "calls", shape[1:]), timed=total(sums, "timed", shape[1:]), ticks=total(sums, "ticks", shape[1:]),
        worst=most(sums, "worst", shape[1:]), worst_torn=most(rows, "worst_torn", shape[1:]),
        backwards=int(sum(int(row["backwards"]) for row in rows)),
    )  # fmt: skip
    for row in rows:
        process.slow += calls_of(process, row["slow"][: int(row["slow_used"])])
        process.torn_calls += calls_of(process, row["torn_calls"][: int(row["torn_used"])])
    return process


def record(file: BinaryIO, at: int, layout: np.dtype) -> Any:
    file.seek(at)
    return np.frombuffer(file.read(layout.itemsize), layout)[0]


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def total(rows: list[Any], name: str, shape: tuple[int, ...]) -> np.ndarray:
    return sum((row[name].astype(np.int64) for row in rows), np.zeros(shape, np.int64))


def most(rows: list[Any], name: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.max([row[name].astype(np.int64) for row in rows], axis=0) if rows else np.zeros(shape, np.int64)


def calls_of(process: Process, table: np.ndarray) -> Iterator[dict[str, Any]]:
    for call in table:
        yield {
            "kind": KINDS[int(call["kind"])],
            "ticks": int(call["ticks"]),
            "window": int(call["window"]),
            "bytes": int(call["size"]),
            "kernel_calls": [name for bit, name in enumerate(KERNEL_CALLS) if int(call["kernel_calls"]) >> bit & 1],
            **{name: int(call[name]) for name in ("minor_faults", "major_faults", "waits", "preemptions")},
            "module": text(call["module"]) or process.program,
            "offset": int(call["offset"]),
        }


def greatest(bucket: int, parts: int) -> int:
    """The greatest value of a bucket, as LogBuckets has them (include/mortise/data/log_histogram.hpp)."""
    return floor(bucket + 1, parts) - 1


def floor(bucket: int, parts: int) -> int:
    if bucket < 2 * parts:
        return bucket
    octave = bucket // parts - 1
    return (parts + bucket % parts) << octave
