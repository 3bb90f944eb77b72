"""What thresholds, segments and caches of other sizes would do to affinity pools, and how large their tables are: sweeps.py
[--thresholds] [--segments] [--caches] [--tlb] [--tables] [--model] [--programs a,b]. Counted by cachegrind but for memory; each table can be made again."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

import inputs  # noqa: E402
import wide  # noqa: E402
from programs import CACHE, INTERLEAVED, PROGRAMS, REAL, ROOT, WORK, command, environment, pools  # noqa: E402

OUT = ROOT / "build/bench/affinity-sweeps.json"
THRESHOLDS = {"objects": (1, 10, 100, 1000, 10_000), "bytes": (32, 64, 128, 256, 512, 1024)}
SEGMENTS = {"1 KiB": "-1k", "4 KiB": "", "16 KiB": "-16k", "64 KiB": "-64k"}
CACHE_KIB = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)


# A TLB is a cache whose lines are pages of 4 KiB: 64 entries that may hold any page, and 1536, 12-way.
TLB = ["--tool=cachegrind", "--cache-sim=yes", "--D1=262144,64,4096", "--LL=6291456,12,4096", "--cachegrind-out-file=/dev/null"]


def counted(program: str, arm: dict[str, str], last_level_kib: int = 1024) -> dict[str, int]:
    """Instructions and misses of one run at the counted size."""
    return simulated(program, arm, [*CACHE, f"--LL={last_level_kib * 1024},16,64"])


def translated(program: str, arm: dict[str, str]) -> dict[str, int]:
    """The same, of the TLB instead of the caches."""
    found = simulated(program, arm, TLB)
    return {"data": found["data"], "tlb": found["d1"], "second_level_tlb": found["ll"]}


def simulated(program: str, arm: dict[str, str], options: list[str]) -> dict[str, int]:
    words = ["valgrind", *options, *command(program, False)]
    done = subprocess.run(words, env=environment(arm), capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        sys.exit(f"sweeps: {program} ended with {done.returncode} under valgrind: {said[-300:]}")
    found = {name: int(re.search(pattern + r"\s*:\s+([0-9,]+)", said)[1].replace(",", "")) for name, pattern in
             {"instructions": r"I +refs", "data": r"D +refs", "d1": r"D1 +misses", "ll": r"LLd misses"}.items()}  # fmt: skip
    return found


def with_setting(key: str, value: int) -> dict[str, str]:
    arm = pools()
    return arm | {"MORTISE_CONF": f"{arm['MORTISE_CONF']},affinity_{key}={value}"}


def peak_kib(program: str, arm: dict[str, str]) -> int:
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *command(program, True)], env=environment(arm), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=True)  # fmt: skip
    return int(done.stderr.split()[-1])


def all_at_once(cells: dict[tuple, tuple], count=counted) -> dict[tuple, dict[str, int]]:
    """Counts do not depend on who else runs: two at a time."""
    with ThreadPoolExecutor(2) as workers:
        return dict(zip(cells, workers.map(lambda cell: count(*cell), cells.values()), strict=True))


def sweep_thresholds(chosen: list[str]) -> dict[str, list]:
    cells = {(p, key, v): (p, with_setting(key, v)) for p in chosen for key, values in THRESHOLDS.items() for v in values}
    return {"thresholds": [[*cell, found] for cell, found in all_at_once(cells).items()]}


def sweep_segments(chosen: list[str]) -> dict[str, list]:
    cells = {(p, name): (p, pools("graph", kind)) for p in chosen for name, kind in SEGMENTS.items()}
    rows = all_at_once(cells)
    return {"segments": [[*cell, found | {"peak_kib": peak_kib(cell[0], cells[cell][1])}] for cell, found in rows.items()]}


def sweep_caches(chosen: list[str]) -> dict[str, list]:
    arms = {"glibc": {}, "size": pools("size"), "graph": pools()}
    cells = {(p, kib, arm): (p, how, kib) for p in chosen for kib in CACHE_KIB for arm, how in arms.items()}
    return {"caches": [[*cell, found] for cell, found in all_at_once(cells).items()]}


def sweep_tlb(chosen: list[str]) -> dict[str, list]:
    arms = {"glibc": {}, "hslab": {"LD_PRELOAD": str(ROOT / "build/lib/libmortise-hslab.so")}, "size": pools("size"), "graph": pools()}
    cells = {(p, arm): (p, how) for p in chosen for arm, how in arms.items()}
    return {"tlb": [[*cell, found] for cell, found in all_at_once(cells, translated).items()]}


def list_tables(chosen: list[str]) -> dict[str, list]:
    rows = []
    for program in chosen:
        with tempfile.TemporaryDirectory() as folder:
            arm = pools()
            arm = arm | {"MORTISE_CONF": f"{arm['MORTISE_CONF']},affinity_dump={folder}/dump.%p"}
            subprocess.run(command(program, True), env=environment(arm), capture_output=True, check=True)
            largest = max(Path(folder).iterdir(), key=lambda f: f.stat().st_size)
            kinds: dict[str, list] = {}
            for line in largest.read_text().splitlines():
                document = json.loads(line)
                kinds.setdefault(document["kind"], []).append(document)
            run, analysis = kinds["run"][0], kinds["analysis"][0]
            rows.append([program, {k: run[k] for k in ("nodes", "pools", "ways", "table_bytes")}
                         | {k: analysis[k] for k in ("edges", "variables", "graph_bytes", "decoded", "form_bytes", "steps", "spent_ns")}
                         | {"merges": len(kinds.get("merge", []))}])  # fmt: skip
    return {"tables": rows}


def hold_the_model(caches: list, cycles: dict[str, dict[str, float]], chosen: list[str]) -> dict[str, list]:
    """speed-up = (Tother + Tmiss) / (Tother + Tmiss * ratio) - 1, with the misses of a cache of 1 MiB. What a miss costs is
    taken from k.mix; the other programs are foretold with it."""
    misses = {(p, arm): found["ll"] for p, kib, arm, found in caches if kib == 1024}
    gone = misses["k.mix", "size"] - misses["k.mix", "graph"]
    cost = (cycles["k.mix"]["size"] - cycles["k.mix"]["graph"]) / gone
    rows = []
    for p in chosen:
        if (p, "graph") not in misses or p not in cycles:
            continue
        whole, before, after = cycles[p]["size"], misses[p, "size"], misses[p, "graph"]
        foretold = whole / (whole - cost * before + cost * before * after / before) - 1
        rows.append([p, {"cycles_of_a_miss": round(cost), "share_of_misses": cost * before / whole, "ratio": after / before, "foretold": foretold,
                         "measured": whole / cycles[p]["graph"] - 1}])  # fmt: skip
    return {"model": rows}


def cycles_counted(chosen: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Cycles in user mode at the counted size: the least of some interleaved rounds."""
    found: dict[str, dict[str, float]] = {p: {} for p in chosen}
    for _ in range(rounds):
        for p in chosen:
            for mode in ("size", "graph"):
                done = subprocess.run(["perf", "stat", "-x,", "-e", "cycles:u", "--", *command(p, False)], env=environment(pools(mode)),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)  # fmt: skip
                cycles = float(next(line for line in done.stderr.splitlines() if "cycles" in line).split(",")[0])
                found[p][mode] = min(cycles, found[p].get(mode, cycles))
    return found


def show(document: dict[str, list], console: Console) -> None:
    for name, rows in document.items():
        if not rows:
            continue
        keys = list(rows[0][-1])
        table = Table(*["program", "of", "arm"][: len(rows[0]) - 1], *keys, title=name)
        for *labels, found in rows:
            table.add_row(*map(str, labels), *(f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for v in found.values()))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("thresholds", "segments", "caches", "tlb", "tables", "model", "show"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--programs", default="")
    options = parser.parse_args()
    parts = {"thresholds": (sweep_thresholds, ["k.mix", "k.cxx", "xalan", "lua"]), "segments": (sweep_segments, ["k.mix", "k.cxx", "k.astar", "xalan", "dot"]),
             "caches": (sweep_caches, ["k.mix", "k.cxx", "k.astar", "xalan", "jq"]), "tlb": (sweep_tlb, [*INTERLEAVED, "health", "treeadd", *REAL]), "tables": (list_tables, REAL)}  # fmt: skip
    for name, scale in (("counted", 0.12), ("timed", 1.0)):
        if not (WORK / name).exists():
            inputs.write(WORK / name, scale)
        wide.write(WORK / name)
    wanted = [p for p in options.programs.split(",") if p]
    if wrong := [p for p in wanted if p not in PROGRAMS]:
        sys.exit(f"sweeps: unknown program {wrong[0]}: expected some of {', '.join(PROGRAMS)}")
    document = json.loads(OUT.read_text()) if OUT.exists() else {}
    everything = not any(vars(options)[name] for name in (*parts, "model", "show"))
    for name, (make, usual) in parts.items():
        if everything or vars(options)[name]:
            document |= make(wanted or usual)
            OUT.parent.mkdir(parents=True, exist_ok=True)
            OUT.write_text(json.dumps(document, indent=1) + "\n")
    if (everything or options.model) and "caches" in document:
        held = sorted({row[0] for row in document["caches"]})
        document |= hold_the_model(document["caches"], cycles_counted(held, 5), held)
        OUT.write_text(json.dumps(document, indent=1) + "\n")
    show(document, Console(width=160))


if __name__ == "__main__":
    main()
