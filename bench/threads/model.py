"""What the address-space lock would cost beyond the cores of this machine: a closed-loop lock-service model.

N threads each think for Z microseconds, then need a lock for S, or for M if another thread had it last: then what the
operation touches lies in another core's cache, and another core must be told. A contended hand-over adds H, and each
further thread makes telling dearer, I*(sqrt(N-1)-1). Isolated threads have a lock each. The parameters are measured by
themselves, never fitted, and none of them with two threads that wait for the lock:
Z from a null system call, S as the rest of one operation alone, M from two threads that take turns at it, H from two
threads passing a cache line, I from the price of dropping a page while another thread of the process is running. The
model must predict the measured rate of two threads within 20 %, or no row beyond is printed.
"""

import heapq
import math
from dataclasses import dataclass

TOLERANCE = 0.20
ROWS = (1, 2, 4, 8, 16, 32, 64)
ARTICLE = {"histogram": ("2.17", 32), "dedup": ("3.19", 32), "linear_regression": ("8.15", 16)}


@dataclass(frozen=True)
class Parameters:
    """Microseconds."""

    think: float
    service: float
    moved: float
    hand_over: float
    tell: float


def rate(threads: int, p: Parameters, operations: int = 20_000) -> float:
    """Operations per microsecond of all threads with one lock, served in order of arrival."""
    arrivals = [(p.think * (i + 1) / threads, i) for i in range(threads)]
    heapq.heapify(arrivals)
    free_at = now = 0.0
    more = p.tell * (math.sqrt(threads - 1) - 1) if threads > 1 else 0.0
    last = arrivals[0][1]
    for _ in range(operations):
        at, thread = heapq.heappop(arrivals)
        start = max(at, free_at)
        held = (p.service if thread == last else p.moved) + (p.hand_over if at < free_at else 0.0) + more
        last = thread
        free_at = now = start + held
        heapq.heappush(arrivals, (now + p.think, thread))
    return operations / now


def isolated(threads: int, alone: float, second_alone: float) -> float:
    """The bound for isolated threads: each as fast as one process alone, scaled by how two processes really did."""
    return alone * threads * min(1.0, second_alone / (2 * alone)) if threads > 1 else alone


def verdict(p: Parameters, measured_two: float) -> tuple[bool, float]:
    """Whether the model predicts two threads, and its relative error."""
    error = rate(2, p) / measured_two - 1
    return abs(error) <= TOLERANCE, error
