"""What each answer to a policy slot costs: instructions counted, locks under threads timed.

    python bench/policies/run.py counts            a table a slot: instructions a malloc/free pair, bytes of blocks a byte asked
    python bench/policies/run.py locks [--rounds N] [--calls N] [--threads 1,2,...] [--only tlsfcc,NAME,...]
                                                   TLSF with each lock in its slot, and tlsfcc with each lock (+array): time over
                                                   that of tlsfcc; the median over rounds, and its 95 % interval

Counts are exact and repeat to the instruction (callgrind, the difference of two lengths); system calls count as nothing. Times
are ratios within a round, geometric means over the workloads; run them on a machine that does nothing else. JSON goes to build/bench/policies-*.json.
"""

import argparse
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bench-bin/policies"
OUT = ROOT / "build/bench"
SHORT, LONG = 20_000, 60_000


def fail(text: str) -> None:
    print(f"policies: {text}", file=sys.stderr)
    raise SystemExit(2)


def build(name: str) -> Path:
    if not (ROOT / "build/build.ninja").exists():
        fail("nothing is configured; run make build first")
    done = subprocess.run(["ninja", "-C", str(ROOT / "build"), f"bench_{name}"], capture_output=True, text=True)
    if done.returncode:
        fail(f"bench_{name} does not build:\n{done.stdout[-2000:]}")
    return BIN / name


def instructions(program: Path, slot: str, answer: str, pairs: int) -> tuple[int, dict]:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), slot, answer, str(pairs)]
    done = subprocess.run(command, capture_output=True, text=True)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not counted:
        fail(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return int(counted[1]), json.loads(done.stdout)


def counts() -> None:
    if not shutil.which("valgrind"):
        fail("valgrind is not installed; run packaging/setup.sh bench")
    program = build("policies")
    rows = []
    arms = [line.split("\t") for line in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()]
    before = ""
    for slot, answer in arms:
        short, _ = instructions(program, slot, answer, SHORT)
        long, held = instructions(program, slot, answer, LONG)
        row = {"slot": slot, "answer": answer, "instructions_per_pair": (long - short) / (LONG - SHORT),
               "block_bytes_per_byte_asked": held["block_bytes"] / held["asked_bytes"], **held}
        rows.append(row)
        if slot != before:
            print(f"\n{slot:28} {'instructions':>14} {'block/asked':>12} {'cached KiB':>11} {'mapped KiB':>11}")
        before = slot
        print(f"  {answer:26} {row['instructions_per_pair']:14.1f} {row['block_bytes_per_byte_asked']:12.3f} "
              f"{held['cached_bytes'] / 1024:11.0f} {held['mapped_bytes'] / 1024:11.0f}", flush=True)
    save("counts", {"pairs": [SHORT, LONG], "rows": rows})


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def interval(rounds: list[float]) -> tuple[float, float, float]:
    """The median, and where the medians of 95 of 100 such runs lie (bootstrap)."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(rounds, k=len(rounds))) for _ in range(2000))
    return statistics.median(rounds), medians[49], medians[1949]


def locks(options: argparse.Namespace) -> None:
    command = [build("locks"), "--rounds", str(options.rounds), "--calls", str(options.calls), "--threads", options.threads]
    if options.only:
        command += ["--only", options.only]
    rows = [json.loads(line) for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    names = [key for key in rows[0] if key not in ("round", "workload", "threads")]
    ours, others = names[0], names[1:]
    ratios: dict[tuple, list[float]] = defaultdict(list)
    by_round: dict[tuple, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    times: dict[tuple, list[float]] = defaultdict(list)
    for row in rows:
        times[row["threads"], row["workload"]].append(row[ours] / options.calls * 1e9)
        for name in others:
            ratios[row["threads"], row["workload"], name].append(row[name] / row[ours])
            by_round[row["threads"], name][row["round"]].append(row[name] / row[ours])
    print(f"time over that of {ours}, medians\n{'threads':>7}  {'workload':10} {'ns a call':>9} " + " ".join(f"{n:>13}" for n in others))
    for (threads, workload), own in times.items():
        print(f"{threads:7}  {workload:10} {statistics.median(own):9.1f} " +
              " ".join(f"{statistics.median(ratios[threads, workload, n]):13.2f}" for n in others))
    summary: dict[int, dict[str, tuple[float, float, float]]] = {}
    for threads in dict.fromkeys(t for t, _ in times):
        summary[threads] = {n: interval([mean(x) for x in by_round[threads, n].values()]) for n in others}
        print(f"{threads:7}  {'all':10} {'':9} " + " ".join(f"{summary[threads][n][0]:13.3f}" for n in others))
        print(f"{'':7}  {'interval':10} {'':9} " + " ".join(f"{f'{low:.2f}-{high:.2f}':>13}" for _, low, high in summary[threads].values()))
    shared = [ratio["mutex"][0] for threads, ratio in summary.items() if threads > 1 and "mutex" in ratio]
    if shared:
        print(f"mean over mutex from two threads on: {mean(shared):.2f}")
    for what, of in (("TLSF under any lock", False), ("tlsfcc with any lock", True)):
        least = min(((r, n, t) for t, ratio in summary.items() for n, (r, _, _) in ratio.items() if n.endswith("+array") == of), default=None)
        if least:
            print(f"least over {what}: {least[0]:.3f} ({least[1]}, {least[2]} threads)")
    save("locks", {"calls": options.calls, "rows": rows, "summary": summary})


def save(what: str, document: dict) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"policies-{what}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{path.relative_to(ROOT)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("counts")
    timed = commands.add_parser("locks")
    timed.add_argument("--rounds", type=int, default=7)
    timed.add_argument("--calls", type=int, default=400_000)
    timed.add_argument("--threads", default="1,2,4,8,16")
    timed.add_argument("--only", default="", metavar="tlsfcc,NAME,...")
    options = parser.parse_args()
    counts() if options.command == "counts" else locks(options)


if __name__ == "__main__":
    main()
