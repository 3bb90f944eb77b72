"""Where the gain over glibc comes from, and what a plan gives: cycles in user mode at the timed size, in interleaved rounds.

    build/venv/bin/python bench/affinity/gain.py [--split] [--plans] [--keys] [--cpu] [--programs xalan,k.cxx] [--rounds 7]

--split takes the gain apart as the article's figure 10 does. glibc / `calls`: pools by size class whose objects have the room of a
header (bench/affinity/programs/headers.c), so only the calls differ. `calls` / `size`: the same without headers. `size` / `graph`: the
layout. --keys: pools by chain and graph against the same by size class, by call site and by chain alone. --plans: a plan is made by one
run of each program, then runs that follow it are set against runs that analyse.

--cpu takes processor time, user and system, in place of cycles: for machines that let nobody count, and to see what page faults cost.
Ratios are Hodges-Lehmann's of the rounds, with intervals of 95 %. Results go to build/bench/affinity-gain.json (mortise.bench-affinity-gain/1).
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import inputs  # noqa: E402
import stats  # noqa: E402
import wide  # noqa: E402
from programs import BIN, PROGRAMS, REAL, ROOT, WIDE, WORK, command, environment, pools  # noqa: E402

OUT = ROOT / "build/bench/affinity-gain.json"
EVENTS = "cycles:u", "instructions:u"
SPLIT = {"all": ("glibc", "graph"), "calls": ("glibc", "calls"), "no headers": ("calls", "size"), "layout": ("size", "graph")}
KEYS = {"all": ("glibc", "graph"), "over size": ("size", "graph"), "over site": ("site", "graph"), "over chain": ("chain", "graph")}
PLANS = {"with a plan": ("graph", "planned"), "over glibc": ("glibc", "planned"), "over size": ("size", "planned")}


def arms(wanted: list[str], plan: Path) -> dict[str, dict[str, str]]:
    by_size, by_graph = pools("size"), pools()
    every = {"glibc": {}, "calls": by_size | {"LD_PRELOAD": f"{BIN / 'libheaders.so'} {by_size['LD_PRELOAD']}"}, "size": by_size, "graph": by_graph,
             "site": pools("site"), "chain": pools("chain"),
             "planned": by_graph | {"MORTISE_CONF": f"{by_graph['MORTISE_CONF']},affinity_plan={plan}"}}  # fmt: skip
    return {name: every[name] for name in wanted}


def counted(program: str, arm: dict[str, str]) -> dict[str, float | str]:
    """One run: its events, and what it printed. The allocator is the program's alone, not perf's."""
    with tempfile.NamedTemporaryFile(mode="r", prefix="mortise-") as told:
        words = ["perf", "stat", "-x,", "-o", told.name, "-e", ",".join(EVENTS), "--", "env", *(f"{k}={v}" for k, v in arm.items()), *command(program, True)]
        done = subprocess.run(words, env=environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        fields = [line.split(",") for line in told if line[:1].isdigit()]
    found: dict[str, float | str] = {f[2]: float(f[0]) for f in fields}
    if done.returncode or len(found) < len(EVENTS):
        sys.exit(f"gain: {program} ended with {done.returncode}, counted {sorted(found)}: expected 0 and {', '.join(EVENTS)}")
    return found | {"output": hashlib.sha256(done.stdout).hexdigest()}


def timed(program: str, arm: dict[str, str]) -> dict[str, float | str]:
    """One run: the processor's seconds, its children's with them."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command(program, True), env=environment(arm), stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        output = hashlib.sha256(told.read()).hexdigest()
    if process.returncode:
        sys.exit(f"gain: {program} ended with {process.returncode}: expected 0")
    return {"cpu": used.ru_utime + used.ru_stime, "output": output}


def make_plan(program: str, plan: Path) -> None:
    words = [ROOT / "build/venv/bin/python", "-m", "mortise", "affinity", "--quiet", "--plan", plan, "--", *command(program, True)]
    done = subprocess.run(words, env=environment({"PYTHONPATH": str(ROOT / "cli")}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode or not plan.exists():
        sys.exit(f"gain: no plan came of {program}, which ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def measure(program: str, wanted: list[str], rounds: int, once: Callable[[str, dict[str, str]], dict]) -> dict[str, list[dict]]:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        if "planned" in wanted:
            make_plan(program, plan)
        every = arms(wanted, plan)
        found: dict[str, list[dict]] = {name: [] for name in every}
        for _ in range(rounds):
            for name in random.sample(list(every), len(every)):
                found[name].append(once(program, every[name]))
    if len({run["output"] for runs in found.values() for run in runs}) > 1:
        sys.exit(f"gain: the output of {program} differs between arms")
    return found


def show(title: str, steps: dict[str, tuple[str, str]], measured: dict[str, dict[str, list[dict]]], cost: str, console: Console) -> dict:
    """How many times faster the second arm of each step is, and of the first of all how many times fewer instructions."""
    first, second = next(iter(steps.values()))
    counts = [f"instructions: {first} / {second}"] if cost in EVENTS else []
    table = Table("program", *(f"{name}: {a} / {b}" for name, (a, b) in steps.items()), *counts, title=title)
    ratios: dict[str, dict[str, stats.Ratio]] = {name: {} for name in steps}
    for program, runs in measured.items():
        row = []
        for name, (a, b) in steps.items():
            r = ratios[name][program] = stats.ratio([(x[cost], y[cost]) for x, y in zip(runs[a], runs[b], strict=True)])
            row.append(f"{r.value:.3f} [{r.low:.3f}, {r.high:.3f}]")
        if counts:
            row.append(f"{median(x['instructions:u'] for x in runs[first]) / median(x['instructions:u'] for x in runs[second]):.4f}")
        table.add_row(program, *row)
    kinds = {"real programs": [p for p in measured if p in REAL or p in WIDE], "others": [p for p in measured if p not in REAL and p not in WIDE]}
    for kind, members in kinds.items():
        if members:
            means = [stats.geometric_mean([(ratios[name][p], 1.0) for p in members]) for name in steps]
            table.add_row(f"geometric mean, {kind}", *(f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]" for m in means))
    console.print(table)
    return {name: {p: [r.value, r.low, r.high] for p, r in of.items()} for name, of in ratios.items()}


def save(document: dict) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="gain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time in place of cycles in user mode")
    parser.add_argument("--programs", default="", help="these only (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    wanted = [p for p in options.programs.split(",") if p] or list(PROGRAMS)
    if wrong := [p for p in wanted if p not in PROGRAMS]:
        sys.exit(f"gain: unknown program {wrong[0]}: expected some of {', '.join(PROGRAMS)}")
    missing = [p for p in wanted if not shutil.which(wide.program(p) if p in WIDE else command(p, True)[0])]
    if missing:
        print(f"gain: not installed, left out: {', '.join(missing)}", file=sys.stderr)
    if not (WORK / "timed").exists():
        inputs.write(WORK / "timed", 1.0)
    wide.write(WORK / "timed")
    document: dict = {"runs": {}, "schema": "mortise.bench-affinity-gain/1", "rounds": options.rounds, "load": os.getloadavg()[0]}
    every = {"split": SPLIT, "keys": KEYS, "plans": PLANS}
    parts = {name: steps for name, steps in every.items() if getattr(options, name)} or {"split": SPLIT, "plans": PLANS}
    once, cost, what = (timed, "cpu", "less processor time") if options.cpu else (counted, "cycles:u", "fewer cycles in user mode")
    for part, steps in parts.items():
        names = list(dict.fromkeys(name for step in steps.values() for name in step))
        measured = {}
        for number, program in enumerate(p for p in wanted if p not in missing):
            print(f"gain: {part}: {program} ({number + 1})", file=sys.stderr)
            measured[program] = measure(program, names, options.rounds, once)
            document["runs"].setdefault(part, {})[program] = {name: [run[cost] for run in runs] for name, runs in measured[program].items()}
            save(document)
        document[part] = show(f"{part}: how many times {what}", steps, measured, cost, Console(width=170))
        save(document)


if __name__ == "__main__":
    main()
