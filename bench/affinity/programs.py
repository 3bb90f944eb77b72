"""What is run: the command at the counted size and at the timed size; {in} is where the inputs of that size lie."""

import os
from pathlib import Path

import wide

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bench-bin/affinity"
WORK = ROOT / "build/bench/affinity-inputs"
KERNELS = {"mix": ("100", "600"), "wrap": ("100", "600"), "cxx": ("100", "400"), "astar": ("100", "400"), "equake": ("100", "400"),
           "parser": ("5", "150")}  # fmt: skip
JQ = "map(select(.id%3==0)|{n:.name,t:(.tags|sort),s:(.pos.x+.pos.y)})|group_by(.n)|map(length)"
PROGRAMS = {f"k.{name}": [[str(BIN / "kernels"), name, size] for size in sizes] for name, sizes in KERNELS.items()} | {
    "treeadd": [[str(BIN / "treeadd"), "21"], [str(BIN / "treeadd"), "22"]],
    "health": [[str(BIN / "health"), "7", "100", "1"], [str(BIN / "health"), "9", "60", "1"]],
    "xalan": [["xalan", "-in", "{in}/site.xml", "-xsl", "{in}/style.xsl"]] * 2,
    "perl": [["perl", "{in}/hashes.pl"]] * 2,
    "lua": [["lua5.4", "{in}/trees.lua"]] * 2,
    "jq": [["jq", "-c", JQ, "{in}/documents.json"]] * 2,
    "dot": [["dot", "-Tplain", "{in}/graph.dot"]] * 2,
    "sqlite3": [["sqlite3", ":memory:", ".read {in}/tables.sql"]] * 2,
}
WIDE = list(wide.COMMANDS)
PROGRAMS |= {name: [words] * 2 for name, words in wide.COMMANDS.items()}
REAL = ["xalan", "perl", "lua", "jq", "dot", "sqlite3"]
INTERLEAVED = ["k.mix", "k.wrap", "k.cxx", "k.astar"]
CACHE = ["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--cachegrind-out-file=/dev/null"]


def pools(mode: str = "graph", kind: str = "") -> dict[str, str]:
    """The environment that runs a program on affinity pools."""
    conf = "affinity_mode=graph,affinity_overhead=1" if mode == "overhead" else f"affinity_mode={mode}"
    return {"LD_PRELOAD": str(ROOT / f"build/lib/libmortise-hslab+affinity{kind}.so"), "MORTISE_CONF": conf}


def command(program: str, timed: bool) -> list[str]:
    folder = WORK / ("timed" if timed else "counted")
    return [word.replace("{in}", str(folder)) for word in PROGRAMS[program][timed]]


def environment(arm: dict[str, str]) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "MORTISE_"))}
    return clean | {"PERL_HASH_SEED": "0", "LC_ALL": "C"} | arm
