"""The benchmark: our allocators beside the peers, in interleaved rounds.

    build/venv/bin/python bench/run.py --quick      six minutes: nine general arms, one thread count a workload
    build/venv/bin/python bench/run.py              forty minutes: six arms, all thread counts
    build/venv/bin/python bench/run.py --full       four hours: every arm; break it off and go on with --resume

Tables on the screen; runs, report and plots under build/bench/. bench/README.md explains what is run and why.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tomllib

from rich.console import Console

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import peers  # noqa: E402
import plots  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
from peers import ROOT, Arm  # noqa: E402

LIBRARIES = ROOT / "build" / "lib"
AGAIN = " again"  # an arm that runs twice: the difference of the two is what noise looks like


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one thread count a workload, at most 6 minutes")
    size.add_argument("--full", action="store_true", help="every arm and thread count, at most 4 hours")
    parser.add_argument("--arms", help="allocators by name, comma-separated ('*' for all)")
    parser.add_argument("--lib-dir", type=pathlib.Path, default=LIBRARIES, help="where our allocators lie")
    parser.add_argument("--only", default="", help="workloads by name or name/threads, comma-separated")
    parser.add_argument("--reference", default="mimalloc3", help="what ratios are taken over (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="stop after this many rounds")
    parser.add_argument("--budget", type=float, metavar="MIN", help="stop after this many minutes of measuring")
    parser.add_argument("--name", help="name of the result files (default: quick, standard or full)")
    parser.add_argument("--resume", action="store_true", help="go on with the runs of an earlier call of this name")
    parser.add_argument("--no-pairs", action="store_true", help="leave out the table of malloc/free pairs")
    parser.add_argument("--no-setup", action="store_true", help="install nothing, build no workload")
    parser.add_argument("--report", action="store_true", help="only print what an earlier call of this name measured")
    return parser.parse_args()


def ours(folder: pathlib.Path) -> dict[str, Arm]:
    """Our allocators, as the build left them: lib/ with facts in share/mortise; libraries without facts are none."""
    found = {}
    facts_of = folder.parent / "share" / "mortise"
    for library in sorted(folder.glob("libmortise-*.so")):
        name = library.name.removeprefix("libmortise-").removesuffix(".so")
        facts_file = facts_of / f"{name}.json"
        if facts_of.exists() and not facts_file.exists():
            continue
        facts = json.loads(facts_file.read_text()) if facts_file.exists() else {}
        version = str(facts.get("version", "this tree"))
        found[name] = Arm(name, f"mortise {name}", "ours", version, str(library.resolve()))
    return found


def set_up(say) -> None:
    """Installs what is missing and builds the workloads. Where nothing can be installed, peers are named missing."""
    groups = ["bench"] + ([] if shutil.which("cargo") else ["crates"])
    done = subprocess.run([ROOT / "packaging" / "setup.sh", *groups], text=True, capture_output=True)
    if done.returncode:
        say(f"set-up of the benchmark failed, going on with what is here: {done.stderr.strip().splitlines()[-1:]}")
    tree = ROOT / "build" / "bench-cmake"
    for command in (
        ["cmake", "-S", ROOT / "bench", "-B", tree, "-G", "Ninja", f"-DMORTISE_BENCH_BIN={session.PROGRAMS}"],
        ["ninja", "-C", tree, "bench_workloads"],
    ):
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode:
            sys.exit(f"bench: the workloads do not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def choose(wanted: list[str], folder: pathlib.Path, say) -> tuple[dict[str, Arm], dict[str, str]]:
    """The arms asked for, in that order, and the reasons for those that cannot be had."""
    mine, names = ours(folder), list(peers.recipes())
    if "*" in wanted:
        wanted = [*mine, *names]
    unknown = [name for name in wanted if name not in mine and name not in names and name != "hslab"]
    if unknown:
        sys.exit(f"bench: no allocator is called {unknown[0]!r}; there are: {', '.join([*mine, *names])}")
    have, missing = peers.gather(wanted, session.PROGRAMS, say)
    for name in wanted:
        if name in mine:
            try:
                peers.prove(mine[name], session.PROGRAMS)
                have[name] = mine[name]
            except peers.Missing as reason:
                missing[name] = str(reason)
        elif name not in names:
            missing[name] = "it is not built (run make build)"
    return {name: have[name] for name in wanted if name in have}, missing


def add_control(arms: dict[str, Arm]) -> dict[str, Arm]:
    """The A/A control: hslab, or else the first arm, once more under another name."""
    first = arms.get("hslab") or next(iter(arms.values()))
    again = Arm(
        first.name + AGAIN,
        first.title + AGAIN,
        first.kind,
        first.version,
        first.library,
        first.environment,
        first.serves,
    )
    return {first.name: first, again.name: again} | arms


def machine() -> dict:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "model": model,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "load_at_end": os.getloadavg()[0],
    }


def main() -> int:
    args = options()
    # Tables need room; a file or a pipe has it.
    console, progress = Console(width=None if sys.stdout.isatty() else 200), Console(stderr=True)
    kind = "quick" if args.quick else "full" if args.full else "standard"
    name = args.name or kind
    suite = tomllib.loads((ROOT / "bench" / "suite.toml").read_text())
    plan = suite["runs"][kind]
    if not args.no_setup:
        set_up(progress.print)
    arms, missing = choose(args.arms.split(",") if args.arms else plan["arms"], args.lib_dir, progress.print)
    if not arms:
        sys.exit(f"bench: none of the allocators asked for can be run: {missing}")
    if kind == "quick" and not args.arms:
        # The quick run times the general ones only, but says of every peer whether it is here.
        others = [peer for peer in peers.recipes() if peer not in plan["arms"]]
        idle, more = peers.gather(others, session.PROGRAMS, progress.print)
        missing |= more
    else:
        idle = {}
    reference = args.reference if args.reference in arms else next(iter(arms))
    arms = add_control(arms)
    programs.prepare(session.BENCH / "inputs")
    if not args.resume and not args.report:
        (session.BENCH / f"{name}.runs.jsonl").unlink(missing_ok=True)
        (session.BENCH / f"{name}.pairs.json").unlink(missing_ok=True)
    running = session.Session(name, arms, progress.print)
    cells = running.available(session.cells_of(suite, kind, args.only.split(",") if args.only else []))
    complete = True
    if not args.report:
        complete = running.run(cells, args.rounds or plan["rounds"], 60 * (args.budget or plan["budget"]))
    finish(name, running, suite, arms, idle, missing | running.missing, reference, args, console)
    if not complete:
        progress.print(f"the budget is used up; --resume --name {name} goes on from here")
    return 0


def finish(name, running, suite, arms, idle, missing, reference, args, console) -> None:
    """The pair table, the report on the screen, and the files."""
    pairs_file = session.BENCH / f"{name}.pairs.json"
    table = json.loads(pairs_file.read_text()) if pairs_file.exists() else {}
    if not args.no_pairs and not args.report:
        table |= session.pairs_table({n: arm for n, arm in arms.items() if n not in table and not n.endswith(AGAIN)})
        pairs_file.write_text(json.dumps(table))
    results = report.Results(running.runs, suite, list(arms), reference, list(peers.recipes()))
    report.print_all(console, results, table, arms | idle, missing)
    document = {
        "schema": "mortise.bench/1",
        "name": name,
        "machine": machine(),
        "reference": reference,
        "arms": {n: vars(arm) for n, arm in arms.items()},
        "missing": missing,
        "failures": results.failures,
        "pairs": table,
        "runs": running.runs,
    }
    (session.BENCH / f"{name}.json").write_text(json.dumps(document))
    with open(session.BENCH / f"{name}.txt", "w") as text:
        report.print_all(Console(file=text, width=220), results, table, arms | idle, missing)
    plots.write(session.BENCH / f"{name}.html", results)
    console.print(f"runs: build/bench/{name}.json   report: build/bench/{name}.txt   plots: build/bench/{name}.html")


if __name__ == "__main__":
    sys.exit(main())
