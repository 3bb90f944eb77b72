"""Affinity pools measured: `make bench-affinity`. Counted figures first - instructions and simulated misses, which are the same
every time - and the bars they are held against; then times, in interleaved rounds.

    build/venv/bin/python bench/affinity/run.py [--counts] [--times] [--cycles] [--programs k.mix,k.wrap] [--rounds 5]

Results go to build/bench/affinity.json; parts run one at a time add to what is there.
"""

import argparse
import glob
import hashlib
import json
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
from math import exp, log
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

import inputs  # noqa: E402
import programs  # noqa: E402
import wide  # noqa: E402
from programs import CACHE, INTERLEAVED, PROGRAMS, REAL, ROOT, WIDE, WORK, command, environment  # noqa: E402

OUT = programs.ROOT / "build/bench/affinity.json"
MODES = ["size", "site", "chain", "graph"]
PEERS = {"mimalloc": "/usr/lib/*-linux-gnu/libmimalloc.so.2*", "jemalloc": "/usr/lib/*-linux-gnu/libjemalloc.so.2"}


def arms(modes: list[str]) -> dict[str, dict[str, str]]:
    """Environments by name: glibc, the peers that are installed, hslab, and hslab+affinity in each mode."""
    found: dict[str, dict[str, str]] = {"glibc": {}}
    for name, pattern in PEERS.items():
        if places := sorted(glob.glob(pattern)):
            found[name] = {"LD_PRELOAD": places[0]}
    found["hslab"] = {"LD_PRELOAD": str(ROOT / "build/lib/libmortise-hslab.so")}
    found |= {mode: programs.pools(mode) for mode in modes}
    system = ROOT / "build/lib/libmortise-system+affinity.so"
    if system.exists() and "graph" in modes:
        found["glibc+graph"] = {"LD_PRELOAD": str(system), "MORTISE_CONF": "affinity_mode=graph"}
    return found


def count(program: str, arm: dict[str, str]) -> dict[str, int]:
    """Instructions and misses of one run, in the simulated caches of cachegrind."""
    done = subprocess.run(["valgrind", *CACHE, "--LL=1048576,8,64", *command(program, False)], env=environment(arm), capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        sys.exit(f"bench-affinity: {program} ended with {done.returncode} under valgrind: {said[-300:]}")

    def number(what: str) -> int:
        return int(re.search(re.escape(what) + r"\s*:\s+([0-9,]+)", said)[1].replace(",", ""))

    return {"instructions": number("I refs") if "I refs" in said else number("I   refs"), "d1_misses": number("D1  misses"),
            "ll_misses": number("LLd misses"), "output": hashlib.sha256(done.stdout).hexdigest()[:16]}


def time_once(program: str, arm: dict[str, str]) -> dict[str, float | str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command(program, True), env=environment(arm), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "output": hashlib.sha256(done.stdout).hexdigest()[:16]}


def show_cycles(chosen: list[str], everyone: dict[str, dict[str, str]], rounds: int, console: Console) -> None:
    """Instructions and cycles in user mode at the timed size, in interleaved rounds: medians, and the first arm's over each. Outputs must be
    the same."""
    events = "instructions:u", "cycles:u"
    tables = {e: Table("program", *everyone, title=f"{e}, millions, and how many times the first arm's they go into") for e in events}
    gains: dict[tuple[str, str], list[float]] = {}
    for program in chosen:
        seen: dict[tuple[str, str], list[int]] = {}
        outputs = set()
        for _ in range(rounds):
            for name, arm in everyone.items():
                done = subprocess.run(["perf", "stat", "-x,", "-o", "/dev/fd/2", "-e", ",".join(events), "--", *command(program, True)],
                                      env=environment(arm), stdin=subprocess.DEVNULL, capture_output=True, check=True)
                outputs.add(hashlib.sha256(done.stdout).hexdigest())
                for event in events:
                    line = next((text for text in done.stderr.decode(errors="replace").splitlines() if text.split(",")[2:3] == [event]), "")
                    if not line[:1].isdigit():
                        sys.exit(f"bench-affinity: perf cannot count {event} here; needed: a processor whose counters the kernel lets one read")
                    seen.setdefault((event, name), []).append(int(line.split(",")[0]))
        if len(outputs) > 1:
            sys.exit(f"bench-affinity: the output of {program} differs between allocators")
        for event, table in tables.items():
            medians = {name: statistics.median(seen[event, name]) for name in everyone}
            first = next(iter(medians.values()))
            table.add_row(program, *(f"{m / 1e6:.0f} {first / m:.3f}" for m in medians.values()))
            for name, m in medians.items():
                gains.setdefault((event, name), []).append(first / m)
    for event, table in tables.items():
        table.add_row("geometric mean", *(f"{exp(sum(map(log, g)) / len(g)):.3f}" for name in everyone if (g := gains[event, name])))
        console.print(table)


def load() -> dict:
    return json.loads(OUT.read_text()) if OUT.exists() else {"schema": "mortise.bench-affinity/1", "counts": {}, "times": {}}


def save(document: dict) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(document, indent=1) + "\n")


def check_outputs(document: dict, part: str) -> None:
    for program, by_arm in document[part].items():
        outputs = {v["output"] if part == "counts" else o for v in by_arm.values() for o in ([v["output"]] if part == "counts" else v["outputs"])}
        if len(outputs) > 1:
            sys.exit(f"bench-affinity: the output of {program} differs between allocators: {by_arm}")


def show_counts(document: dict, console: Console) -> None:
    names = [n for n in ["glibc", *PEERS, "hslab", *MODES, "overhead", "glibc+graph"] if any(n in v for v in document["counts"].values())]
    for what, title in (("ll_misses", "LL data misses, millions"), ("d1_misses", "D1 data misses, millions"), ("instructions", "instructions, millions")):
        table = Table("program", *names, title=title)
        for program, by_arm in document["counts"].items():
            table.add_row(program, *(f"{by_arm[n][what] / 1e6:.3f}" if n in by_arm else "-" for n in names))
        console.print(table)


def ratio(document: dict, program: str, arm: str, against: str, what: str) -> float | None:
    by_arm = document["counts"].get(program, {})
    return by_arm[arm][what] / by_arm[against][what] if arm in by_arm and against in by_arm else None


def bars(document: dict) -> list[tuple[str, float, str, bool]]:
    """What the counted figures are held against: name, value, limit, kept."""
    found = []

    def add(name: str, value: float | None, limit: float, above: bool = False) -> None:
        if value is not None:
            found.append((name, value, f"{'>=' if above else '<='} {limit}", value >= limit if above else value <= limit))

    for mode in ("chain", "graph"):
        for program in INTERLEAVED:
            limit = 0.80 if program == "k.astar" else 0.65
            add(f"LL misses of {program} by {mode}, of mimalloc's", ratio(document, program, mode, "mimalloc", "ll_misses"), limit)
        for program in ["xalan", "lua", "perl", "jq", "health", "k.equake"]:
            if mode == "chain":
                break  # pools by chain alone may part what belongs together: that is what the graph is for
            add(f"no harm: LL misses of {program} by {mode}", ratio(document, program, mode, "mimalloc", "ll_misses"), 1.06)
            add(f"no harm: D1 misses of {program} by {mode}", ratio(document, program, mode, "mimalloc", "d1_misses"), 1.08)
    add("call sites alone fail on k.wrap: LL misses", ratio(document, "k.wrap", "site", "mimalloc", "ll_misses"), 0.95, above=True)
    add("treeadd merged: D1 misses by graph", ratio(document, "treeadd", "graph", "mimalloc", "d1_misses"), 1.005)
    for program in REAL:
        add(f"overhead in instructions: {program}", ratio(document, program, "overhead", "hslab", "instructions"), 1.03)
    return found


def show_times(document: dict, console: Console) -> None:
    names = [n for n in ["glibc", *PEERS, "hslab", *MODES, "overhead", "glibc+graph"] if any(n in v for v in document["times"].values())]
    table = Table("program", *names, title="CPU seconds, median")
    gains: dict[str, list[float]] = {n: [] for n in names}
    for program, by_arm in document["times"].items():
        medians = {n: statistics.median(by_arm[n]["cpu_s"]) for n in names if n in by_arm}
        table.add_row(program, *(f"{medians[n]:.3f}" if n in medians else "-" for n in names))
        for n in medians:
            if "size" in medians:
                gains[n].append(medians["size"] / medians[n])
    if gains.get("size"):
        table.add_row("speed over size", *(f"{exp(sum(map(log, g)) / len(g)):.3f}" if (g := gains[n]) else "-" for n in names))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="counted figures only")
    parser.add_argument("--times", action="store_true", help="times only")
    parser.add_argument("--cycles", action="store_true", help="instructions and cycles in user mode only, by perf; nothing is kept")
    parser.add_argument("--show", action="store_true", help="show what has been measured")
    parser.add_argument("--programs", default=",".join(p for p in PROGRAMS if p not in WIDE))
    parser.add_argument("--wide", action="store_true", help="the wider set of real programs instead")
    parser.add_argument("--modes", default="size,site,chain,graph,overhead")
    parser.add_argument("--arms", default="", help="these only, such as glibc,size,graph")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bars", action="store_true", help="exit status 1 where a bar is missed")
    options = parser.parse_args()
    both = not (options.counts or options.times or options.cycles or options.show)
    chosen = WIDE if options.wide else options.programs.split(",")
    if wrong := [p for p in chosen if p not in PROGRAMS]:
        sys.exit(f"bench-affinity: unknown program {wrong[0]}: expected some of {', '.join(PROGRAMS)}")
    missing = [p for p in chosen if not shutil.which(wide.program(p) if p in WIDE else command(p, True)[0])]
    if missing:
        print(f"bench-affinity: not installed, left out: {', '.join(missing)}", file=sys.stderr)
    chosen = [p for p in chosen if p not in missing]
    for name, scale in (("counted", 0.12), ("timed", 1.0)):
        if not (WORK / name).exists():
            inputs.write(WORK / name, scale)
        wide.write(WORK / name)
    console, document = Console(width=150), load()
    everyone = {name: arm for name, arm in arms(options.modes.split(",")).items() if name in (options.arms or name).split(",")}
    if options.cycles:
        return show_cycles(chosen, everyone, options.rounds, console)
    if options.counts or both:
        for program in chosen:
            for name, arm in everyone.items():
                document["counts"].setdefault(program, {})[name] = count(program, arm)
            save(document)
    if options.times or both:
        for program in chosen:
            document["times"].setdefault(program, {}).update({name: {"cpu_s": [], "outputs": []} for name in everyone})
        for _ in range(options.rounds):
            for program in random.sample(chosen, len(chosen)):
                time_once(program, {})  # whoever runs first pays for pages that the host of a virtual machine took back meanwhile
                for name in random.sample(list(everyone), len(everyone)):
                    once = time_once(program, everyone[name])
                    cell = document["times"][program][name]
                    cell["cpu_s"].append(round(once["cpu_s"], 4))
                    cell["outputs"] = sorted({*cell["outputs"], once["output"]})
            save(document)
    check_outputs(document, "counts")
    check_outputs(document, "times")
    show_counts(document, console)
    table = Table("bar", "reached", "limit", "", title="bars on counted figures")
    for name, value, limit, kept in bars(document):
        table.add_row(name, f"{value:.3f}", limit, "kept" if kept else "MISSED")
    console.print(table)
    if document["times"]:
        show_times(document, console)
    if options.bars and not all(kept for *_, kept in bars(document)):
        sys.exit(1)


if __name__ == "__main__":
    main()
