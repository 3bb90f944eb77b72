"""The benchmark of isolated threads: the same programs with ordinary and with isolated threads, in interleaved rounds.

    build/venv/bin/python bench/threads/run.py --quick    a minute or two: 2 threads, 3 rounds
    build/venv/bin/python bench/threads/run.py            ten minutes: 1, 2, 4 and 8 threads, 5 rounds
    build/venv/bin/python bench/threads/run.py --cycles   processor cycles of all threads, user and kernel, instead of time
    build/venv/bin/python bench/threads/run.py --equality 100   no timing: outputs only, that many runs of each

Tables on the screen; every run in build/bench/threads.json. A ratio is the median of the arm over the median of
ordinary threads with glibc's malloc in the same rounds; a bar compares two arms round by round. Where the baseline itself
spreads by more than 30 % the cell is void.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import model  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIB = ROOT / "build/lib"
OUT = ROOT / "build/bench"
SPREAD_MAX = 0.30
SECONDS_MAX = 60
BASELINE = "threads, glibc"

# name, arguments after the thread count, compiler options
PROGRAMS = [
    ("histogram", ["133"], ["-O3"]),
    ("linear_regression", ["200"], ["-O3"]),
    ("linear_regression_O0", ["50"], ["-O0"]),
    ("string_match", ["200"], ["-O3"]),
    ("matrix_multiply", ["600"], ["-O3"]),
    ("dedup", ["64"], ["-O2"]),
    ("false_sharing", ["400"], ["-O1"]),
]
CHURN = [("mmap_churn", ["64"], ["-O2"]), ("mmap_churn", ["1024"], ["-O2"])]
# With a cache the same takes milliseconds: twenty times as many.
CHURN_CACHED = [("mmap_churn", ["64", "20"], ["-O2"]), ("mmap_churn", ["1024", "20"], ["-O2"])]
QUICK = {"histogram": ["40"], "linear_regression": ["60"], "linear_regression_O0": ["20"], "dedup": ["16"],
         "string_match": ["40"]}


def peer() -> pathlib.Path | None:
    found = sorted(pathlib.Path("/usr/lib").glob("*/libmimalloc.so.2"))
    return found[0] if found else None


def arms() -> dict[str, dict[str, str]]:
    """Environment of each arm."""
    isolate = str(LIB / "libmortise-isolate.so")
    found = {BASELINE: {}, "isolated, glibc": {"LD_PRELOAD": isolate}}
    for name in ("iamalloc", "hslab"):
        library = LIB / f"libmortise-{name}.so"
        if library.exists():
            found[f"threads, {name}"] = {"LD_PRELOAD": str(library)}
            found[f"isolated, {name}"] = {"LD_PRELOAD": f"{isolate}:{library}"}
    if peer():
        found["threads, mimalloc"] = {"LD_PRELOAD": str(peer())}
        found["isolated, mimalloc"] = {"LD_PRELOAD": f"{isolate}:{peer()}"}
    return found


def churn_arms() -> dict[str, dict[str, str]]:
    isolate = str(LIB / "libmortise-isolate.so")
    return {BASELINE: {}, "isolated, no cache": {"LD_PRELOAD": isolate, "MORTISE_THREADS_CACHE": "0"}}


def cached_arms() -> dict[str, dict[str, str]]:
    isolate, cache = (str(LIB / f"libmortise-{name}.so") for name in ("isolate", "mapcache"))
    return {"threads, cached": {"LD_PRELOAD": cache}, "isolated, cached": {"LD_PRELOAD": isolate}}


def build(name: str, options: list[str]) -> pathlib.Path:
    folder = OUT / "threads-programs"
    folder.mkdir(parents=True, exist_ok=True)
    source = HERE / "programs" / f"{name.removesuffix('_O0')}.c"
    target = folder / name
    sources = [source, *source.parent.glob("*.h")]
    if not target.exists() or target.stat().st_mtime < max(file.stat().st_mtime for file in sources):
        subprocess.run(["gcc", *options, "-D_GNU_SOURCE", "-pthread", str(source), "-o", str(target)], check=True)
    return target


def run(command: list[str], extra: dict[str, str], cycles: bool = False) -> tuple[float, str]:
    """Seconds, or thousand millions of cycles, and what it printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "MORTISE"))}
    environment |= {"BENCH_INPUTS": str(OUT)} | extra
    if cycles:  # env sets what perf itself is not to be run with
        words = [f"{key}={value}" for key, value in extra.items()]
        command = ["perf", "stat", "-x,", "-e", "cycles:u,cycles:k", "--", "env", *words, *command]
        environment = {k: v for k, v in environment.items() if k not in extra}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    taken = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[:200]}")
    if cycles:
        taken = sum(int(line.split(",")[0]) for line in done.stderr.splitlines() if ",cycles:" in line) / 1e9
    return taken, done.stdout


def measure(programs: list, by_arm: dict, counts: list[int], rounds: int, quick: bool, runs: list,
            cycles: bool = False) -> list[dict]:
    """Interleaved rounds of every program, thread count and arm; checks that all answers agree."""
    cells = []
    for name, size, options in programs:
        size = QUICK.get(name, size) if quick else size
        binary = build(name, options)
        for threads in counts:
            command = [str(binary), str(threads), *size]
            answer = run(command, {})[1]   # also makes the input
            taken = {arm: [] for arm in by_arm}
            for number in range(rounds):
                order = list(by_arm)
                random.shuffle(order)
                for arm in order:
                    cost, said = run(command, by_arm[arm], cycles)
                    if said != answer:
                        raise SystemExit(f"{name} with {threads} threads, {arm}: its output differs")
                    taken[arm].append(cost)
                    runs.append({"program": name, "size": size, "threads": threads, "arm": arm, "round": number,
                                 "gigacycles" if cycles else "wall_s": round(cost, 5)})
            cells.append({"name": f"{name} {' '.join(size)}", "threads": threads, "taken": taken})
    return cells


def show(console: Console, title: str, by_arm: dict, cells: list[dict], unit: str) -> None:
    table = Table(title=title, title_justify="left")
    first = next(iter(by_arm))
    for column in ("program", "threads", f"{first} ({unit})", *(arm for arm in by_arm if arm != first)):
        table.add_column(column, justify="left" if column == "program" else "right")
    for cell in cells:
        base = cell["taken"][first]
        middle = statistics.median(base)
        void = (max(base) - min(base)) / middle > SPREAD_MAX
        row = [cell["name"], str(cell["threads"]), f"{middle:.3f}{' void' if void else ''}"]
        for arm in by_arm:
            if arm != first:
                row.append(f"{statistics.median(cell['taken'][arm]) / middle:.2f}x")
        table.add_row(*row)
    console.print(table)


def show_bars(console: Console, cells: list[dict]) -> None:
    """Isolated threads against ordinary ones with the same allocator, and what each program is to show."""
    table = Table(title="bars", title_justify="left")
    for column in ("program", "threads", "isolated", "over", "asked", "here", "range of rounds", ""):
        table.add_column(column)

    def row(cell: dict, arm: str, over: str, least: float | None, most: float | None) -> None:
        mine, other = cell["taken"].get(arm), cell["taken"].get(over)
        if not mine or not other:
            return
        rounds = [a / b for a, b in zip(mine, other, strict=True)]
        if least:
            rounds = [1 / r for r in rounds]
        ratio = statistics.median(rounds)
        holds = ratio >= least if least else ratio <= most
        asked = f"{least}x faster" if least else f"<= {most}x"
        spread = (max(other) - min(other)) / statistics.median(other) > SPREAD_MAX
        said = "void" if spread else "yes" if holds else "no"
        here, between = f"{ratio:.2f}x", f"{min(rounds):.2f} to {max(rounds):.2f}"
        table.add_row(cell["name"], str(cell["threads"]), arm, over, asked, here, between, said)

    for cell in cells:
        if cell["name"].startswith("mmap_churn"):
            if cell["threads"] == 2:
                row(cell, "isolated, no cache", BASELINE, 1.3, None)
            row(cell, "isolated, cached", "threads, cached", None, 1.0)
            continue
        if cell["name"].startswith("false_sharing") and cell["threads"] == 2:
            # The pair; with more threads than CPUs those that share a line seldom run at the same time.
            row(cell, "isolated, iamalloc", BASELINE, 2.0, None)
            row(cell, "isolated, iamalloc", "threads, hslab", None, 1.0)
        for arm in cell["taken"]:
            if arm.startswith("isolated, "):
                row(cell, arm, arm.replace("isolated", "threads"), None, 1.15)
    console.print(table)


def show_costs(console: Console, runs: list) -> None:
    binary = build("costs", ["-O2"])
    table = Table(title="what a thread and a lock cost (median of five, and their range)", title_justify="left")
    for column in ("arm", "heap (MB)", "create+join us", "lock+unlock ns", "round trip us"):
        table.add_column(column)
    for megabytes in ("0", "256"):
        for arm, extra in (("threads", {}), ("isolated", {"LD_PRELOAD": str(LIB / "libmortise-isolate.so")})):
            tries = [run([str(binary), megabytes], extra)[1].splitlines() for _ in range(5)]
            values = [sorted(float(line.split()[-1]) for line in column) for column in zip(*tries, strict=True)]
            table.add_row(arm, megabytes, *(f"{v[2]:.1f} ({v[0]:.1f} to {v[-1]:.1f})" for v in values))
            runs.append({"program": "costs", "heap_mb": int(megabytes), "arm": arm, "values": values})
    console.print(table)


def kernel(who: str, operation: str, count: int, seconds: float) -> float:
    """Operations per microsecond: the median of three."""
    binary = build("kernels", ["-O2"])
    found = [float(run([str(binary), who, operation, str(count), str(seconds)], {})[1]) for _ in range(3)]
    return statistics.median(found) / 1e6


def show_kernels(console: Console, seconds: float, runs: list) -> None:
    """Address-space operations by threads and by processes, and the model where it proves itself."""
    table = Table(title="operations on the address space, thousands a second", title_justify="left")
    for column in ("operation", "threads 1", "threads 2", "processes 1", "processes 2", "model for 2", "model"):
        table.add_column(column)
    think = 1 / kernel("threads", "null", 1, seconds)
    hand_over = 1 / kernel("threads", "pass", 2, seconds)
    drop_alone, drop_both = (1 / kernel("threads", "drop", n, seconds) for n in (1, 2))
    tell = max(0.0, 2 * drop_both - drop_alone)
    valid = []
    for operation in ("map", "touch", "protect"):
        t1, t2, p1, p2 = (kernel(who, operation, n, seconds) for who in ("threads", "processes") for n in (1, 2))
        turns = 1 / kernel("threads", f"turns-{operation}", 2, seconds)
        calls = 2 * think
        told = 0.0 if operation == "map" else tell   # nothing was touched: no core has it in its TLB
        service = max(1 / t1 - calls, 0.01)
        parameters = model.Parameters(calls, service, max(turns - hand_over - calls, service), hand_over, told)
        good, error = model.verdict(parameters, t2)
        measured = [f"{1e3 * v:.1f}" for v in (t1, t2, p1, p2)]
        said = f"off by {error:+.0%}: {'accepted' if good else 'rejected'}"
        table.add_row(operation, *measured, f"{1e3 * model.rate(2, parameters):.1f}", said)
        runs.append({"kernel": operation, "threads": [t1, t2], "processes": [p1, p2], "model": vars(parameters),
                     "error": error, "accepted": good})
        if good:
            valid.append((operation, parameters, p1, p2))
    console.print(table)
    for operation, parameters, p1, p2 in valid:
        show_model(console, operation, parameters, p1, p2)
    articles = ", ".join(f"{name} {gain} at {n}" for name, (gain, n) in model.ARTICLE.items())
    console.print(f"The article's programs on 32 cores and kernel 3.2: {articles}. Since then faults of different "
                  "threads no longer meet in one lock (per-VMA locks, kernel 6.4); calls that change mappings still do.")


def show_model(console: Console, operation: str, parameters: model.Parameters, p1: float, p2: float) -> None:
    table = Table(title=f"MODEL, not a measurement: {operation}, thousands a second", title_justify="left")
    for column in ("threads", "one address space", "isolated (bound)"):
        table.add_column(column, justify="right")
    for n in model.ROWS:
        table.add_row(str(n), f"{1e3 * model.rate(n, parameters):.0f}", f"{1e3 * model.isolated(n, p1, p2):.0f}")
    console.print(table)


def equality(console: Console, times: int) -> None:
    """Outputs with isolated threads, `times` runs each at 1, 2, 4 and 8 threads; the first difference ends it."""
    isolate = {"LD_PRELOAD": str(LIB / "libmortise-isolate.so")}
    small = {"histogram": ["3"], "linear_regression": ["5"], "linear_regression_O0": ["2"], "string_match": ["4"],
             "matrix_multiply": ["120"], "dedup": ["2"], "false_sharing": ["2"], "mmap_churn": ["1024"]}
    for name, _, options in PROGRAMS + CHURN[:1]:
        binary = build(name, options)
        for threads in (1, 2, 4, 8):
            command = [str(binary), str(threads), *small[name]]
            answer = run(command, {})[1]
            for number in range(times):
                if run(command, isolate)[1] != answer:
                    raise SystemExit(f"{name} with {threads} threads: output of run {number + 1} differs")
        console.print(f"{name}: {times} runs each at 1, 2, 4 and 8 threads, all outputs equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 threads, 3 rounds, smaller inputs")
    parser.add_argument("--cycles", action="store_true", help="cycles (perf stat) instead of time")
    parser.add_argument("--equality", type=int, metavar="RUNS", help="compare outputs only, this many runs each")
    parser.add_argument("--only", default="", help="programs by name, comma-separated; costs and kernels are two more")
    parser.add_argument("--threads", default="", help="how many, comma-separated")
    parser.add_argument("--rounds", type=int, help="times each arm is run")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.equality:
        return equality(console, options.equality)
    counts, rounds = ([2], 3) if options.quick else ([1, 2, 4, 8], 5)
    counts = [int(n) for n in filter(None, options.threads.split(","))] or counts
    rounds = options.rounds or rounds
    wanted = set(filter(None, options.only.split(",")))
    chosen = [p for p in PROGRAMS if not wanted or p[0] in wanted]
    churn, cached = ([p for p in some if not wanted or p[0] in wanted] for some in (CHURN, CHURN_CACHED))
    runs: list[dict] = []
    cells = []
    unit = "10^9 cycles" if options.cycles else "s"
    for title, by_arm, programs in ((f"programs: {unit} over ordinary threads", arms(), chosen),
                                    ("mapping and unmapping (KB a buffer)", churn_arms(), churn),
                                    ("the same with a cache of mappings", cached_arms(), cached)):
        found = measure(programs, by_arm, counts, rounds, options.quick, runs, options.cycles)
        show(console, title, by_arm, found, unit)
        cells += found
    show_bars(console, cells)
    if not wanted or "costs" in wanted:
        show_costs(console, runs)
    if not wanted or "kernels" in wanted:
        show_kernels(console, 0.1 if options.quick else 0.25, runs)
    OUT.mkdir(parents=True, exist_ok=True)
    document = {"schema": "mortise.bench-threads/1", "kernel": platform.release(), "runs": runs}
    (OUT / "threads.json").write_text(json.dumps(document, indent=1) + "\n")
    console.print("every run: build/bench/threads.json")


if __name__ == "__main__":
    main()
