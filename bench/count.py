"""Counted figures: instructions per malloc/free pair by callgrind, cache misses of workloads by cachegrind.

    build/venv/bin/python bench/count.py --arms hslab,mimalloc3 [--misses trees,words]

Valgrind has no restartable sequences: an allocator that uses them is counted on its fallback path.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import run  # noqa: E402
import session  # noqa: E402
from peers import Arm  # noqa: E402

SIZES = (16, 256, 1024, 16384, 262144)
BATCHES = (1, 50, 1000)
FEW, MANY = 2_000, 12_000  # the difference of two runs leaves out start and end
LINE_COUNTS = ("I refs", "D refs", "D1  misses", "LLd misses", "Mispredicts")


def _valgrind(arm: Arm, tool: list[str], command: list[str]) -> str:
    """What valgrind says on stderr. Empty where the allocator does not start under it."""
    done = subprocess.run(
        ["valgrind", *tool, *command],
        text=True,
        capture_output=True,
        timeout=600,
        env=os.environ | arm.environment | {"LD_PRELOAD": arm.library},
    )
    return done.stderr if done.returncode == 0 else ""


def _count(text: str, what: str) -> int | None:
    found = re.search(re.escape(what) + r"\s*:\s+([0-9,]+)", text)
    return int(found.group(1).replace(",", "")) if found else None


def instructions_per_pair(arm: Arm, size: int, batch: int) -> float | None:
    """Instructions of the loop, the calls and the allocator, for one pair."""
    tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
    counts = [
        _count(
            _valgrind(arm, tool, [str(session.PROGRAMS / "pair"), "--count", str(size), str(batch), str(pairs)]),
            "Collected",
        )
        for pairs in (FEW, MANY)
    ]
    return None if None in counts else (counts[1] - counts[0]) / (MANY - FEW)


def misses(arm: Arm, workload: str) -> dict[str, int | None]:
    """A workload at a hundredth of its size, with simulated caches and branches."""
    program = str(session.PROGRAMS / workload)
    full = json.loads(subprocess.run([program], text=True, capture_output=True).stdout)["ops"]
    tool = ["--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=/dev/null"]
    text = re.sub(r"  +", "  ", _valgrind(arm, tool, [program, "--ops", str(max(full // 100, 1))]))
    return {what: _count(re.sub(r"\s+", " ", text), re.sub(r"\s+", " ", what)) for what in LINE_COUNTS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/count.py", description=__doc__.splitlines()[0])
    parser.add_argument("--arms", default="hslab,mimalloc3,snmalloc,jemalloc,gperftools,tcmalloc,rpmalloc,glibc")
    parser.add_argument(
        "--misses", default="trees,words", help="workloads for cachegrind, comma-separated; '' for none"
    )
    parser.add_argument("--lib-dir", type=pathlib.Path, default=run.LIBRARIES, help="where our allocators lie")
    parser.add_argument("--no-setup", action="store_true", help="install nothing, build no workload")
    args = parser.parse_args()
    console, progress = Console(width=None if sys.stdout.isatty() else 200), Console(stderr=True)
    if not args.no_setup:
        run.set_up(progress.print)
    arms, missing = run.choose(args.arms.split(","), args.lib_dir, progress.print)
    pairs = Table(title="instructions per malloc/free pair (callgrind; rseq allocators on their fallback path)")
    pairs.add_column("allocator")
    for batch in BATCHES:
        for size in SIZES:
            pairs.add_column(f"{size} B\n{'LIFO' if batch == 1 else f'batch {batch}'}", justify="right")
    document: dict = {"schema": "mortise.bench.count/1", "pairs": {}, "misses": {}, "missing": missing}
    for name, arm in arms.items():
        progress.print(f"counting {name}")
        counts = {f"{size}/{batch}": instructions_per_pair(arm, size, batch) for batch in BATCHES for size in SIZES}
        document["pairs"][name] = counts
        pairs.add_row(name, *("-" if value is None else f"{value:.0f}" for value in counts.values()))
    console.print(pairs)
    for workload in filter(None, args.misses.split(",")):
        table = Table(title=f"{workload} at a hundredth of its size (cachegrind)")
        for column in ("allocator", *LINE_COUNTS):
            table.add_column(column, justify="left" if column == "allocator" else "right")
        for name, arm in arms.items():
            counts = misses(arm, workload)
            document["misses"].setdefault(workload, {})[name] = counts
            table.add_row(name, *("-" if value is None else f"{value:,}" for value in counts.values()))
        console.print(table)
    for name, reason in missing.items():
        console.print(f"{name} is missing: {reason}")
    session.BENCH.mkdir(parents=True, exist_ok=True)
    (session.BENCH / "count.json").write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
