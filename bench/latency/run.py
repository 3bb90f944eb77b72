"""The tail of malloc and free, allocator beside allocator: two threads that free each other's blocks, every call timed.

A round runs every arm once, in random order; histograms of all rounds are added. Torn calls (the kernel took the CPU away
meanwhile) are left out of the percentiles of every arm alike and counted beside. The row "empty" times nothing, in the same
loop: no figure means more than it does. Before it is timed every arm has taken, touched and freed the same reserve, and has done
as much work as is timed. Beside the percentiles stands the ratio of every arm's to the base's within the rounds, median and interval, also
by how long a line took from core to core: in a virtual machine that changes from minute to minute. Results go to
build/bench/latency.json (mortise.bench-latency/1).

    build/venv/bin/python bench/latency/run.py [--arms hslab,wfslab,glibc,...] [--rounds 3] [--operations 20e6]
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy  # noqa: E402
import peers  # noqa: E402
import run as bench  # noqa: E402
import session  # noqa: E402
import stats  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

SHARES = ["0.5", "0.9", "0.99", "0.999", "0.9999", "0.99999", "0.999999"]
KINDS = ["malloc", "free own", "free remote", "empty"]
APART = 2  # cores are "far" where a line takes so many times what it takes between near ones
DEFAULT = "hslab,wfslab,glibc,jemalloc,mimalloc3,snmalloc,tcmalloc,rpmalloc"
OUT = session.BENCH / "latency.json"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", default=DEFAULT, help="allocators, in the order of the table (default: %(default)s)")
    parser.add_argument("--base", help="the arm that ratios are to (default: wfslab, or the first arm)")
    parser.add_argument("--lib-dir", type=pathlib.Path, default=session.ROOT / "build" / "lib", help="where ours are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--operations", type=float, default=20e6, help="timed calls a run (default: 20 million)")
    parser.add_argument("--warm-up", type=float, default=1, help="how much of the work is done untimed before (default: %(default)s, as much)")
    parser.add_argument("--reserve", type=float, default=256, metavar="MIB", help="taken, touched and freed before (default: 256)")
    parser.add_argument("--no-fence", action="store_true", help="read the clock while loads of the loop itself are under way")
    parser.add_argument("--conf", action="append", default=[], metavar="ARM:K=V,...", help="settings of an arm of ours")
    parser.add_argument("--json", type=pathlib.Path, default=OUT)
    parser.add_argument("--no-setup", action="store_true", help="install nothing, build nothing")
    return parser.parse_args()


def arms_of(given: argparse.Namespace, say) -> tuple[dict[str, peers.Arm], dict[str, str]]:
    have, missing = bench.choose([name for name in given.arms.split(",") if name], given.lib_dir, say)
    for text in given.conf:
        name, _, settings = text.partition(":")
        if name not in have:
            sys.exit(f"latency: --conf '{text}' names no arm of this run: expected ARM:KEY=VALUE[,KEY=VALUE]")
        have[name].environment["MORTISE_CONF"] = settings
    return have, missing


def one(arm: peers.Arm, given: argparse.Namespace) -> dict:
    words = [session.PROGRAMS / "latency", "--threads", str(given.threads)]
    words += ["--operations", str(given.operations), "--warm-up", str(given.warm_up), "--reserve", str(given.reserve)]
    words += ["--fence", str(int(not given.no_fence))]
    environment = os.environ | arm.environment | ({"LD_PRELOAD": arm.library} if arm.name != "glibc" else {})
    done = subprocess.run(words, env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"latency: {arm.name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    result = json.loads(done.stdout)
    wanted = arm.serves or os.path.realpath(arm.library)
    if wanted not in os.path.realpath(result["malloc"]):
        sys.exit(f"latency: {arm.name} is preloaded, but malloc came from {result['malloc']}")
    return result


def percentiles(kind: dict) -> dict:
    """Of the calls that nothing tore, in nanoseconds, rounded up to the bucket's end (1.6 %), never beyond the worst."""
    histogram = sorted(kind["histogram"])
    total = sum(count for _, count in histogram)
    found = {}
    for share in SHARES:
        least, reached = float(share) * total, 0
        if total * (1 - float(share)) < 1:
            continue  # fewer calls than it takes to say
        for ns, count in histogram:
            reached += count
            if reached >= least - 1e-6:
                found[share] = min(ns, kind["worst_ns"])
                break
    return found


def merged(results: list[dict]) -> dict:
    """All rounds of one arm together."""
    kinds: dict[str, dict] = {}
    for result in results:
        for name, kind in result["kinds"].items():
            into = kinds.setdefault(name, {"histogram": {}, "torn": 0, "worst_ns": 0.0, "worst_torn_ns": 0.0, "sum_ns": 0.0})
            for ns, count in kind["histogram"]:
                into["histogram"][ns] = into["histogram"].get(ns, 0) + count
            for key in ("torn", "sum_ns"):
                into[key] += kind[key]
            for key in ("worst_ns", "worst_torn_ns"):
                into[key] = max(into[key], kind[key])
    for kind in kinds.values():
        kind["histogram"] = sorted([ns, count] for ns, count in kind["histogram"].items())
        kind["calls"] = sum(count for _, count in kind["histogram"]) + kind["torn"]
        kind["percentiles_ns"] = percentiles(kind)
        kind["mean_ns"] = kind["sum_ns"] / kind["calls"]
    return kinds


def distances(results: dict[str, list[dict]]) -> dict[str, float]:
    """The ways from core to core that the runs met, each with its longest: near and far where the tenths at both ends lie well apart."""
    seen = sorted(ns for of_arm in results.values() for result in of_arm for ns in result["line_ns"])
    low, high = seen[len(seen) // 10], seen[-1 - len(seen) // 10]
    if high <= APART * low:
        return {"all": seen[-1]}
    middle = (low * high) ** 0.5
    return {"near": max(ns for ns in seen if ns <= middle), "far": seen[-1]}


def distance(result: dict, known: dict[str, float]) -> str | None:
    """Which of the known ways this run had, from its begin to its end."""
    met = {next(name for name, longest in known.items() if ns <= longest) for ns in result["line_ns"]}
    return met.pop() if len(met) == 1 else None


def tail(result: dict, name: str) -> dict[str, float]:
    """The percentiles of one kind of call in one run, and its worst call under "1"."""
    return percentiles(result["kinds"][name]) | {"1": result["kinds"][name]["worst_ns"]}


def ratios(results: dict[str, list[dict]], base: str, known: dict[str, float]) -> list[dict]:
    """Each arm's tail over the base's in the same round, of all rounds and of those with one distance; and over its own empty operation's."""
    tails = {arm: [{name: tail(run, name) for name in KINDS} for run in runs] for arm, runs in results.items()}
    found = []

    def add(labels: dict, pairs: list[tuple[dict, dict]]) -> None:
        for share in [*SHARES, "1"]:
            both = [(mine[share], other[share]) for mine, other in pairs if share in mine and share in other]
            if one := stats.ratio(both):
                found.append(labels | {"percentile": share, "median_ns": float(numpy.median([mine for mine, _ in both])),
                                       "ratio": one.value, "low": one.low, "high": one.high, "rounds": one.count})  # fmt: skip

    for arm, runs in results.items():
        for name in KINDS:
            for where in ["all", *(name for name in known if name != "all")]:
                kept = [at for at, run in enumerate(runs)
                        if where == "all" or {distance(run, known), distance(results[base][at], known)} == {where}]  # fmt: skip
                pairs = [(tails[arm][at][name], tails[base][at][name]) for at in kept]
                add({"arm": arm, "over": base, "kind": name, "cores": where}, pairs)
            if name != "empty":
                add({"arm": arm, "over": "empty", "kind": name, "cores": "all"}, [(one[name], one["empty"]) for one in tails[arm]])
    return found


def figure(ns: float | None) -> str:
    return "-" if ns is None else f"{ns / 1000:,.1f} µs" if ns >= 10_000 else f"{ns:,.0f}"


def show_ratios(document: dict, console: Console, title: str, share: str, over: str, cores: str) -> None:
    rows = {(row["arm"], row["kind"]): row for row in document["ratios"]
            if (row["percentile"], row["over"], row["cores"]) == (share, over, cores)}  # fmt: skip
    if not rows:
        return
    kinds = [name for name in KINDS if any(kind == name for _, kind in rows)]
    heading = f"{title}: median of the rounds in ns, over {over}'s in the same round [95 %]"
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False)
    table.add_column("arm")
    for column in (*kinds, "rounds"):
        table.add_column(column, justify="right")
    for arm in dict.fromkeys(arm for arm, _ in rows):
        cells = [rows.get((arm, name)) for name in kinds]
        texts = ["-" if c is None else f"{figure(c['median_ns'])}  {c['ratio']:.2f} [{c['low']:.2f}, {c['high']:.2f}]" for c in cells]
        table.add_row(arm, *texts, str(max(c["rounds"] for c in cells if c)))
    console.print(table)
    console.print()


def show(document: dict, console: Console) -> None:
    for name in KINDS:
        table = Table(title=f"{name} (ns)", title_justify="left", box=None, pad_edge=False)
        table.add_column("arm")
        for column in ("calls", "mean", *(f"p{100 * float(s):g}" for s in SHARES), "worst", "torn", "worst torn"):
            table.add_column(column, justify="right")
        for arm, entry in document["arms"].items():
            kind = entry["kinds"][name]
            table.add_row(arm, f"{kind['calls']:,}", figure(kind["mean_ns"]),
                          *(figure(kind["percentiles_ns"].get(s)) for s in SHARES),
                          figure(kind["worst_ns"]), f"{kind['torn']:,}", figure(kind["worst_torn_ns"]))  # fmt: skip
        console.print(table)
        console.print()
    for where in dict.fromkeys(row["cores"] for row in document["ratios"]):
        reach = "all rounds" if where == "all" else f"cores {where}, a line takes up to {document['line_ns'][where]:.0f} ns"
        for share, title in (("0.999", "p99.9"), ("0.9999", "p99.99")):
            show_ratios(document, console, f"{title}, {reach}", share, over=document["base"], cores=where)
    for share, title in (("0.999999", "p99.9999"), ("1", "the worst call")):
        show_ratios(document, console, title, share, over="empty", cores="all")
    for arm, entry in document["arms"].items():
        if entry["minor_faults"]:
            console.print(f"{arm}: {entry['minor_faults']:,} page faults while timing")
    for arm, why in document["missing"].items():
        console.print(f"{arm} is missing: {why}", markup=False)


def measured(arms: dict[str, peers.Arm], given: argparse.Namespace, say) -> dict[str, list[dict]]:
    """What each arm did in every round. Who stops the run (Ctrl-C, SIGTERM) gets the rounds that were over."""
    results: dict[str, list[dict]] = {name: [] for name in arms}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in range(given.rounds):
        try:
            now = {}
            for name in random.sample(list(arms), len(arms)):
                say(f"round {number + 1} of {given.rounds}: {name}")
                now[name] = one(arms[name], given)
        except KeyboardInterrupt:
            if not number:
                sys.exit("latency: stopped before the first round was over, so there is nothing to report: expected some minutes a round")
            say(f"stopped: {number} of {given.rounds} rounds were over and are reported")
            break
        for name, result in now.items():
            results[name].append(result)
    return results


def main() -> None:
    given = options()
    progress = Console(stderr=True)

    def say(text: str) -> None:
        progress.print(f"latency: {text}", markup=False, highlight=False)

    if not given.no_setup:
        bench.set_up(say)
    arms, missing = arms_of(given, say)
    if not arms:
        sys.exit(f"latency: no arm can be run: {missing}")
    base = given.base or ("wfslab" if "wfslab" in arms else next(iter(arms)))
    if base not in arms:
        sys.exit(f"latency: --base '{base}' is no arm of this run: expected one of {', '.join(arms)}")
    results = measured(arms, given, say)
    rounds = len(results[base])
    known = distances(results)
    document = {
        "schema": "mortise.bench-latency/1", "threads": given.threads, "operations": given.operations,
        "warm_up": given.warm_up, "reserve_mib": given.reserve, "fenced": not given.no_fence,
        "rounds": rounds, "load": os.getloadavg()[0], "missing": missing,
        "base": base, "line_ns": known, "ratios": ratios(results, base, known),
        "arms": {
            name: {"version": arms[name].version, "library": arms[name].library, "environment": arms[name].environment,
                   "minor_faults": sum(r["minor_faults"] for r in results[name]), "line_ns": [r["line_ns"] for r in results[name]],
                   "kinds": merged(results[name])}
            for name in arms
        },
    }  # fmt: skip
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(document, indent=1) + "\n")
    show(document, Console(width=None if sys.stdout.isatty() else 160))
    if rounds < given.rounds:
        sys.exit(130)


if __name__ == "__main__":
    main()
