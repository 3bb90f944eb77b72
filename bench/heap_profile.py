"""What the heap profile costs whole programs at its default rate: instructions and cycles on hslab_profiled against hslab, in turns.

    build/venv/bin/python bench/heap_profile.py [--rounds 9] [--program sqlite ...]

Counted by `perf stat` in user mode. Instructions hardly move from run to run; cycles move by some percent with where code happens to lie.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs  # noqa: E402
import session  # noqa: E402

LIBRARIES = pathlib.Path(__file__).resolve().parents[1] / "build/lib"
EVENTS = ("instructions:u", "cycles:u")
NAMES = ("python", "lua", "perl", "jq", "sqlite", "compile", "xalan")


def counted(command: list[str], environment: dict[str, str], allocator: str) -> dict[str, float]:
    """The events of one run."""
    with tempfile.NamedTemporaryFile(mode="r", prefix="mortise-") as told:
        settings = [f"{key}={value}" for key, value in (environment | {"LD_PRELOAD": str(LIBRARIES / f"libmortise-{allocator}.so")}).items()]
        perf = ["perf", "stat", "-x,", "-e", ",".join(EVENTS), "-o", told.name, "--", "env", *settings, *command]
        done = subprocess.run(perf, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"LD_BIND_NOW": "1"})
        text = told.read()
    found = {name: float(m[1]) for name in EVENTS if (m := re.search(rf"^([\d.]+),,{name}", text, re.M))}
    if done.returncode or len(found) < len(EVENTS):
        sys.exit(f"heap_profile: {command[0]} on {allocator} ended with {done.returncode}, counted {sorted(found)}: expected 0 and "
                 f"{', '.join(EVENTS)}; does 'perf stat -e {EVENTS[0]} true' count here? {done.stderr.strip()[-200:]}")
    return found


def ratios(command: list[str], environment: dict[str, str], rounds: int) -> dict[str, float]:
    """The median over pairs of runs, the two in turns first."""
    pairs = []
    for number in range(rounds + 1):
        order = ("hslab", "hslab_profiled") if number % 2 else ("hslab_profiled", "hslab")
        pair = {name: counted(command, environment, name) for name in order}
        pairs.append({event: pair["hslab_profiled"][event] / pair["hslab"][event] for event in EVENTS})
    return {event: median(pair[event] for pair in pairs[1:]) for event in EVENTS}  # the first pair warms up


def main() -> None:
    parser = argparse.ArgumentParser(prog="heap_profile", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="pairs of runs (9)")
    parser.add_argument("--program", action="append", choices=NAMES, help="only this one; may be repeated")
    chosen = parser.parse_args()
    place = session.BENCH / "inputs"
    programs.prepare(place)
    table = Table("program", *(f"{event.split(':')[0]}, %" for event in EVENTS), title="hslab_profiled against hslab")
    for name in chosen.program or NAMES:
        _, command, environment = programs.commands(place)[name]
        found = ratios(command, environment, chosen.rounds)
        table.add_row(name, *(f"{100 * (found[event] - 1):+.2f}" for event in EVENTS))
    Console().print(table)


if __name__ == "__main__":
    main()
