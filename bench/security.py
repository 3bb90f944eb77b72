"""Crimes against the heap, on our allocators and on the hardened ones of others: who notices what?

    build/venv/bin/python bench/security.py [--arms hslab,hslab_hardened,scudo] [--runs 5]

A crime (tests/crimes) is caught when it ends the program by a signal, or when the allocator complains on standard error;
harmless when nobody notices and the damage it aims at does not come about; missed otherwise. Each runs several times,
because layouts are random: always, sometimes (k of n), never. The table goes to the screen and to build/bench/security.md,
every run to build/bench/security.json.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import peers
import run as bench
import session

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRIME = ROOT / "build/tests/crimes/crime"
ARMS = ["hslab", "hslabd", "wfslabs", "tlsfccsd", "hslab_hardened", "glibc", "mimalloc3_secure", "snmalloc_checks", "scudo",
        "hardened_malloc"]
KINDS = {"spatial": "writes outside a block", "temporal": "second frees, writes after free", "argument": "wrong pointers and sizes",
         "metadata": "attacks on metadata", "read": "reads after free and past the end"}
HARMLESS, WATCHDOG_S = 10, 60


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", default=",".join(ARMS), help="allocators, ours and peers")
    parser.add_argument("--runs", type=int, default=5, help="how often each crime is committed on each arm")
    parser.add_argument("--no-setup", action="store_true", help="install nothing, build no workload")
    parser.add_argument("--lib-dir", type=pathlib.Path, default=ROOT / "build" / "lib")
    return parser.parse_args()


def crimes() -> list[tuple[str, str]]:
    if not CRIME.exists():
        sys.exit(f"bench: {CRIME} is not built: run make bench-security")
    listed = subprocess.run([CRIME, "--list"], capture_output=True, text=True, check=True).stdout
    return [tuple(line.split()) for line in listed.splitlines()]


def commit(crime: str, arm: peers.Arm) -> dict:
    """One crime, once. A hang is a harm: it is stopped and counts as missed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MORTISE_", "LD_"))}
    preload = {} if arm.name == "glibc" else {"LD_PRELOAD": arm.library}
    try:
        done = subprocess.run([CRIME, crime], env=env | arm.environment | preload, capture_output=True, timeout=WATCHDOG_S)
    except subprocess.TimeoutExpired:
        return {"verdict": "missed", "status": "hang", "line": ""}
    line = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[0]
    caught = done.returncode < 0 or bool(line)
    verdict = "caught" if caught else "harmless" if done.returncode == HARMLESS else "missed"
    return {"verdict": verdict, "status": done.returncode, "line": line[:200]}


def cell(verdicts: list[str]) -> str:
    caught, harmless = verdicts.count("caught"), verdicts.count("harmless")
    if caught == len(verdicts):
        return "**always**"
    if caught:
        return f"{caught} of {len(verdicts)}"
    return "no harm" if harmless == len(verdicts) else "never"


def share(found: dict, names: list[str], arm: str, wanted: tuple[str, ...] = ("caught",)) -> float:
    verdicts = [run["verdict"] for name in names for run in found[name][arm]]
    return 100 * sum(v in wanted for v in verdicts) / len(verdicts)


def tables(listed: list, found: dict, arms: dict[str, peers.Arm]) -> str:
    head = "| | " + " | ".join(arms) + " |\n|---|" + "---|" * len(arms) + "\n"
    lines = ["Caught, in percent of all runs (in brackets: caught or without harm):\n\n", head]
    for kind, what in KINDS.items():
        names = [name for name, k in listed if k == kind]
        cells = [f"{share(found, names, a):.0f} ({share(found, names, a, ('caught', 'harmless')):.0f})" for a in arms]
        lines.append(f"| {what} ({len(names)}) | " + " | ".join(cells) + " |\n")
    harm = [name for name, k in listed if k != "read"]
    lines.append("| **all but reads** | " + " | ".join(f"**{share(found, harm, a):.1f}**" for a in arms) + " |\n")
    lines += ["\nEach crime:\n\n", head.replace("| |", "| crime |", 1)]
    for kind in KINDS:
        for name, k in listed:
            if k == kind:
                lines.append(f"| {name} | " + " | ".join(cell([r["verdict"] for r in found[name][a]]) for a in arms) + " |\n")
    return "".join(lines)


def main() -> int:
    args = options()
    say = lambda *words: print(*words, file=sys.stderr)  # noqa: E731
    if not args.no_setup:
        bench.set_up(say)
    arms, missing = bench.choose(args.arms.split(","), args.lib_dir, say)
    for name, reason in missing.items():
        say(f"{name} is left out: {reason}")
    listed = crimes()
    found: dict[str, dict[str, list]] = {}
    for name, _ in listed:
        found[name] = {arm: [commit(name, facts) for _ in range(args.runs)] for arm, facts in arms.items()}
    text = tables(listed, found, arms)
    session.BENCH.mkdir(parents=True, exist_ok=True)
    (session.BENCH / "security.md").write_text(text)
    document = {"schema": "mortise.security/1", "runs": args.runs, "arms": {n: vars(a) for n, a in arms.items()},
                "kinds": dict(listed), "missing": missing, "crimes": found}
    (session.BENCH / "security.json").write_text(json.dumps(document, indent=1))
    print(text)
    print("every run: build/bench/security.json   this table: build/bench/security.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
