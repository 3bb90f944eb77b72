"""The benchmark of the object pools: the original experiment, the bars, and what others use as pools, side by side.

Cells are run in rotated order, round by round, and the median over tests is shown. A test whose threads did not run in
parallel is void: something else ran on this machine, or the threads waited for each other. It is repeated a few times;
a cell without a valid test is void as a whole, and shows what all of its tests gave. Results go to
build/bench/pool.json, with plots in build/bench/pool.html; parts run one at a time add to what is there.
"""

import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys

import drawing
from rich.console import Console
from rich.table import Table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "bench-bin" / "pool"
OUT = ROOT / "build" / "bench"
RULES = ["by_thread_in_turn", "by_thread_hash", "by_core"]
POOLS = [1, 2, 4, 8]
THREADS = [8, 16, 32]
PARALLELISM_MIN = 0.8
ATTEMPTS = 3  # times the tests of a cell are repeated while some of them are void
CPUS = len(os.sched_getaffinity(0))
# What is preloaded for the malloc rows: ours, those that Debian's packages carry, and what `make bench` has built.
ALLOCATORS = {
    "malloc hslab": "build/lib/libmortise-hslab.so",
    "malloc wfslab": "build/lib/libmortise-wfslab.so",
    "malloc jemalloc": "/usr/lib/*-linux-gnu/libjemalloc.so.2",
    "malloc mimalloc": "/usr/lib/*-linux-gnu/libmimalloc.so.2",
    "malloc tcmalloc": "/usr/lib/*-linux-gnu/libtcmalloc_minimal.so.4",
    "malloc tbbmalloc": "/usr/lib/*-linux-gnu/libtbbmalloc_proxy.so.2",
    **{f"malloc {n}": f"build/peers/{n}/lib{n}.so" for n in ("mimalloc3", "snmalloc", "rpmalloc", "hoard")},
}


def designs_of_others() -> list[str]:
    """What is at hand here, besides our pools."""
    found = [name for name, where in ALLOCATORS.items() if glob.glob(str(ROOT / where) if where[0] != "/" else where)]
    return ["mutex", "boost", "moodycamel", "tbb", "malloc glibc", *found]


def valid(run: dict) -> bool:
    """Whether the threads of a test ran in parallel: otherwise its times and contention say nothing."""
    return run["threads"] == 1 or run["antagonists"] or run["parallelism"] >= PARALLELISM_MIN * CPUS


def measure_valid(cell: tuple, share: int) -> list[dict]:
    """Tests of a cell until `share` of them are valid, or enough is enough."""
    design, threads, load, _, iterations, antagonists = cell
    runs: list[dict] = []
    for _ in range(ATTEMPTS):
        if (missing := share - sum(map(valid, runs))) > 0:
            runs += measure(design, threads, load, missing, iterations, antagonists)
    return runs


def measure(design: str, threads: int, load: str, tests: int, iterations: int, antagonists: bool = False) -> list[dict]:
    """Runs one cell; its tests as dictionaries."""
    environment = dict(os.environ)
    if design in ALLOCATORS:
        where = ALLOCATORS[design]
        environment["LD_PRELOAD"] = glob.glob(str(ROOT / where) if where[0] != "/" else where)[0]
    words = [str(PROGRAM), design, str(threads), load, str(tests), str(iterations)] + ["antagonists"] * antagonists
    done = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, check=True)
    more = {"load": load, "iterations": iterations, "antagonists": antagonists}
    return [json.loads(line) | more for line in done.stdout.splitlines()]


def plan(part: str, quick: bool) -> list[tuple]:
    """The cells of a part: design, threads, load, tests, iterations, antagonists."""
    some = 5 if quick else 15
    ours = ["distributed", "distributed-threads", "distributed-none"]
    if part == "pair":
        heads = ["by_core/pair_head:2", "by_core/index_head:2"]
        names = ours + [f"{rule}:2" for rule in RULES] + heads + designs_of_others()
        slow = ("boost", "moodycamel", "mutex", "tbb", "distributed-none", "by_thread")
        # The fast ones work longer, so that all threads of a test are there at the same time.
        work = {d: 1_000_000 if d.startswith(slow) else 4_000_000 for d in names}
        return [(d, t, "pair", some if t > 1 else some * 2, work[d], False) for t in (1, 8, 32) for d in names]
    if part.startswith("grid"):
        rules = [part.partition(":")[2]] if ":" in part else RULES
        sizes = [(10 if quick else 50, 1_000_000), (0 if quick else 50, 4_000_000)]
        cells = [(f"{rule}:{pools}", threads) for rule in rules for threads in THREADS for pools in POOLS]
        return [(d, t, "crc", n, i, False) for d, t in cells for n, i in sizes if n]
    if part == "crc":
        names = ["distributed", "distributed-threads", *designs_of_others()]
        return [(d, t, "crc", some, 1_000_000, False) for t in THREADS for d in names]
    if part == "handoff":
        names = ours + [f"{rule}:2" for rule in RULES] + designs_of_others()
        return [(d, t, "handoff", some, 500_000, False) for t in (2, 8) for d in names]
    names = [f"{rule}:{p}" for rule in RULES for p in (1, 2)] + ours
    return [(d, 8, "crc", 5 if quick else 50, 4_000_000, True) for d in names]


PARTS = ["pair", *(f"grid:{rule}" for rule in RULES), "crc", "handoff", "antagonists"]


def run_part(part: str, quick: bool, rounds: int, console: Console) -> list[dict]:
    """All cells of a part, in rotated order each round, so that no cell always has the same neighbour."""
    cells, runs = plan(part, quick), []
    for number in range(rounds):
        shift = number * len(cells) // rounds
        for cell in cells[shift:] + cells[:shift]:
            share = max(1, -(-cell[3] // rounds))
            runs += [run | {"part": part} for run in measure_valid(cell, share)]
        console.print(f"{part}: round {number + 1} of {rounds}", style="dim")
    return runs


def cells_of(runs: list[dict]) -> dict[tuple, dict]:
    """Medians over valid tests, or over all where none is, by part, design, threads and iterations."""
    groups: dict[tuple, list[dict]] = {}
    for run in runs:
        groups.setdefault((run["part"], run["design"], run["threads"], run["iterations"]), []).append(run)
    keys = ["wall_ns", "cpu_ns", "parallelism", "contention_pct"]
    cells = {}
    for cell, some in groups.items():
        good = [run for run in some if valid(run)]
        cells[cell] = {key: statistics.median(run[key] for run in good or some) for key in keys}
        cells[cell] |= {"errors": sum(run["crc_errors"] for run in some), "tests": len(some), "valid": len(good)}
    return cells


def show(runs: list[dict], console: Console) -> None:
    """One table a part."""
    cells = cells_of(runs)
    for part in [p for p in PARTS if any(cell[0] == p for cell in cells)]:
        void = f"threads ran on less than {PARALLELISM_MIN:.0%} of {CPUS} CPUs"
        table = Table(title=f"pools: {part} (medians; void: {void})")
        headings = "design threads iterations valid_tests wall_ns CPU_ns parallel contention_% CRC_errors"
        for heading in headings.replace("_", "\u00a0").split(" "):
            table.add_column(heading, justify="left" if heading == "design" else "right")
        for (_, design, threads, iterations), m in sorted((c, m) for c, m in cells.items() if c[0] == part):
            void = not m["valid"]
            parallel = f"{m['parallelism']:.2f}" + (" void" if void else "")
            errors = "-" if design.startswith("malloc") or part in ("pair", "handoff") else str(m["errors"])
            contended = f"{m['contention_pct']:.3f}" if design.startswith(("by_", "distributed")) else "-"
            numbers = [str(threads), f"{iterations:,}", f"{m['valid']}/{m['tests']}"]
            numbers += [f"{m[key]:.1f}" for key in ("wall_ns", "cpu_ns")]
            table.add_row(design, *numbers, parallel, contended, errors, style="dim" if void else None)
        console.print(table)


def show_bars(runs: list[dict], console: Console) -> None:
    """The bars that this machine's figures can be held against."""
    cells, cpus = cells_of(runs), CPUS
    table = Table(title="bars")
    for heading in ("bar", "asked", "here", ""):
        table.add_column(heading)

    def row(bar: str, asked: str, value: float | None, holds: bool | None, form="{:.2f}", void=False) -> None:
        if value is not None:
            verdict = "void" if void else "" if asked == "-" else "yes" if holds else "no"
            table.add_row(bar, asked, form.format(value), verdict, style="dim" if void else None if holds else "bold")

    def of(part: str, design: str, threads: int, key: str) -> float | None:
        found = sorted(c for c in cells if c[:3] == (part, design, threads))  # the shortest tests first
        return cells[found[0]][key] if found else None

    one, many = of("pair", "distributed", 1, "cpu_ns"), of("pair", "distributed", 32, "cpu_ns")
    row("distributed: a pair, one thread, CPU ns", "<= 3", one, (one or 9) <= 3)
    spread = many / one if many and one else None
    row("the same with 32 threads, as a multiple", "<= 1.3", spread, spread and spread <= 1.3)
    alone, crowd = of("pair", f"by_core:{cpus}", 1, "cpu_ns"), of("pair", f"by_core:{cpus}", 32, "cpu_ns")
    more = crowd / alone if crowd and alone else None
    row("by_core, pools = CPUs: a pair with 32 threads over one, CPU", "<= 1.2x", more, more and more <= 1.2)
    grid = "grid:by_core"
    for threads in THREADS:
        a, b, c = (of(grid, f"by_core:{n}", threads, "wall_ns") for n in (1, cpus, cpus * 2))
        ran = [of(grid, f"by_core:{n}", threads, "valid") for n in (1, cpus, cpus * 2)]
        void = not all(ran)  # threads that ran one after another say nothing about contention
        least = 3.0 if threads == 8 else 2.5
        gain = a / b if a and b else None
        enough = gain and gain >= least
        row(f"by_core, {threads} threads: 1 pool against as many as CPUs", f">= {least}x", gain, enough, void=void)
        more = c / b if b and c else None
        row(f"by_core, {threads} threads: twice the pools", "<= 1.3x", more, more and more <= 1.3, void=void)
        share = of(grid, f"by_core:{cpus}", threads, "contention_pct")
        low = share is not None and share < 0.5
        row(f"by_core, {threads} threads, pools = CPUs: contention %", "< 0.5", share, low, "{:.4f}", void)
        for rule in RULES[:2]:  # the original's finding: they meet more often, and need not be slower
            part, design = f"grid:{rule}", f"{rule}:{cpus}"
            theirs, often = of(part, design, threads, "wall_ns"), of(part, design, threads, "contention_pct")
            if theirs and b:
                said = f"{rule}, the same: contention {often:.2f} %, wall over by_core"
                row(said, "-", theirs / b, True, void=void or not of(part, design, threads, "valid"))
    checked = [run for run in runs if run["load"] == "crc" and not run["design"].startswith("malloc")]
    errors = sum(run["crc_errors"] for run in checked)
    operations = sum(run["operations"] for run in checked)
    row(f"CRC errors in {len(checked)} tests, {operations:,.0f} operations", "0", float(errors), errors == 0, "{:.0f}")
    known = designs_of_others()
    for part, threads in [("pair", t) for t in (1, 8, 32)] + [("crc", t) for t in THREADS]:
        for key in ("cpu_ns", "wall_ns"):
            mine = of(part, "distributed", threads, key)
            others = {d: m[key] for (p, d, t, _), m in cells.items() if (p, t) == (part, threads) and d in known}
            if mine and others:
                best = min(others, key=others.get)
                times = others[best] / mine
                which = f"{part}, {threads} threads, {key[:-3]}: best of others ({best}) over ours"
                row(which, "> 1", times, times > 1, void=not of(part, "distributed", threads, "valid"))
    console.print(table)


def plot(runs: list[dict], path: pathlib.Path) -> None:
    """Scaling: time by pools for each rule and number of threads, contention below it; and all designs by threads."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    cells = cells_of(runs)
    titles = ["CRC test: wall ns by pools", "a pair: CPU ns by threads"]
    titles += ["CRC test: contention % by pools", "CRC test: CPU ns by threads"]
    figure = make_subplots(rows=2, cols=2, subplot_titles=titles)
    for rule in RULES:
        for threads in THREADS:
            points = [(p, cells.get((f"grid:{rule}", f"{rule}:{p}", threads, 1_000_000))) for p in POOLS]
            points = [(p, m) for p, m in points if m]
            for line, key in ((1, "wall_ns"), (2, "contention_pct")):
                x, y = [p for p, _ in points], [m[key] for _, m in points]
                look = {"mode": "lines+markers", "legendgroup": rule, "showlegend": line == 1}
                figure.add_scatter(x=x, y=y, name=f"{rule}, {threads} threads", row=line, col=1, **look)
    for line, part in ((1, "pair"), (2, "crc")):
        for design in sorted({cell[1] for cell in cells if cell[0] == part}):
            points = sorted((cell[2], m) for cell, m in cells.items() if cell[:2] == (part, design))
            x, y = [t for t, _ in points], [m["cpu_ns"] for _, m in points]
            figure.add_scatter(x=x, y=y, name=design, mode="lines+markers", showlegend=line == 1, row=line, col=2)
    figure.update_xaxes(type="log", dtick=0.30103)
    figure.update_yaxes(type="log", row=1)
    figure.update_yaxes(type="log", row=2, col=2)
    figure.update_layout(template="simple_white", height=1000, title="mortise: object pools")
    figure.write_html(path, include_plotlyjs=True)


def main() -> int:
    """Measures, adds to the results, prints tables and bars, draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given more than once")
    parser.add_argument("--quick", action="store_true", help="a few tests a cell")
    parser.add_argument("--rounds", type=int, default=2, help="times the cells are gone through")
    parser.add_argument("--show", action="store_true", help="measure nothing, show what is there")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="draw the scaling plots of docs/pools.md there")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 130)
    file = OUT / "pool.json"
    if not PROGRAM.exists():
        Console(stderr=True).print(f"{PROGRAM} is missing; run: make bench-pool")
        return 2
    kept = json.loads(file.read_text())["runs"] if file.exists() else []
    for part in [] if options.show else options.part or PARTS:
        fresh = run_part(part, options.quick, options.rounds, Console(stderr=True))
        kept = [run for run in kept if run["part"] != part] + fresh
        OUT.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"schema": "mortise.bench-pool/1", "cpus": CPUS, "runs": kept}))
    show(kept, console)
    show_bars(kept, console)
    plot(kept, OUT / "pool.html")
    if options.svg:
        drawing.draw(cells_of(kept), RULES, THREADS, options.svg)
    console.print(f"results: {file}   plots: {OUT / 'pool.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
