"""What the OS says a program holds against what its runtime says: peak RSS and OCaml's top_heap_words over rising iteration counts.

A runtime's own number counts what it asked for, in the steps in which it asks; RSS counts what was touched. Both are shown as growth
since the smallest count, so that what the program's image holds does not matter (a common left end). Usage:

    top_heap.py FOLDER PROGRAM COUNT,COUNT,... [ARGUMENT]...      each run is PROGRAM COUNT ARGUMENT...
"""

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import plotly.graph_objects as go  # noqa: E402
from mortise.arms import Arm  # noqa: E402
from mortise.drawing import COLOURS, LAYOUT  # noqa: E402
from mortise.launching import Launcher, Request  # noqa: E402

POLICIES = {"next-fit": 0, "best-fit": 2}
ROUNDS = 3
WORD_BYTES = 8
MIB = 1 << 20


def top_heap_bytes(said: str) -> int:
    """What a runtime with v=0x400 says at its exit."""
    found = re.search(r"top_heap_words: (\d+)", said)
    if not found:
        raise SystemExit("top_heap: the program printed no top_heap_words: is it an OCaml program, and OCAMLRUNPARAM read?")
    return int(found[1]) * WORD_BYTES


def shifted(values: list[float]) -> list[float]:
    """The same curve, from zero at its left end."""
    return [value - values[0] for value in values]


def measure(program: list[str], counts: list[int]) -> dict[str, dict[str, list[float]]]:
    """For each policy the medians of peak RSS and of the runtime's own peak at each count."""
    launcher, found = Launcher(), {name: {"rss": [], "top_heap": []} for name in POLICIES}
    for count in counts:
        for name, policy in POLICIES.items():
            arm = Arm(name, "environment", env={"OCAMLRUNPARAM": f"a={policy},v=0x400"})
            argv = [program[0], str(count), *program[1:]]
            runs = [launcher.run(Request(argv, arm, memory=True)) for _ in range(ROUNDS)]
            found[name]["rss"].append(statistics.median(run.facts["peak_rss_bytes"] for run in runs))
            found[name]["top_heap"].append(statistics.median(top_heap_bytes(run.stderr_tail) for run in runs))
    return found


def figure(counts: list[int], found: dict[str, dict[str, list[float]]]) -> go.Figure:
    drawn = go.Figure(layout=LAYOUT)
    for place, (name, curves) in enumerate(found.items()):
        for what, dash in (("rss", "solid"), ("top_heap", "dot")):
            growth = [value / MIB for value in shifted(curves[what])]
            label = f"{name}: {'RSS, says the OS' if what == 'rss' else 'top_heap, says the runtime'}"
            drawn.add_scatter(x=counts, y=growth, name=label, line={"color": COLOURS[place], "dash": dash}, mode="lines+markers")
    drawn.update_xaxes(title="operations")
    drawn.update_yaxes(title="growth since the left end, MiB")
    return drawn


def lines(counts: list[int], found: dict[str, dict[str, list[float]]]) -> list[str]:
    said = [f"{'operations':>12}" + "".join(f"{f'{name} {what}':>20}" for name in found for what in ("rss", "top_heap"))]
    columns = [shifted(found[name][what]) for name in found for what in ("rss", "top_heap")]
    for place, count in enumerate(counts):
        said.append(f"{count:>12}" + "".join(f"{column[place] / MIB:>16.1f} MiB" for column in columns))
    for name, curves in found.items():
        grown, told = (shifted(curves[what])[-1] / MIB for what in ("rss", "top_heap"))
        said.append(f"{name}: RSS grew by {grown:.1f} MiB, top_heap by {told:.1f} ({told - grown:+.1f})")
    return said


def main(words: list[str]) -> None:
    if len(words) < 3:
        raise SystemExit(f"top_heap: expected FOLDER PROGRAM COUNT,COUNT,... [ARGUMENT]..., got {' '.join(words) or 'nothing'}")
    folder, program, counts = Path(words[0]), words[1], [int(count) for count in words[2].split(",")]
    found = measure([program, *words[3:]], counts)
    document: dict[str, Any] = {"program": [program, *words[3:]], "counts": counts, "bytes": found}
    (folder / "ocaml_top_heap.json").write_text(json.dumps(document, indent=1) + "\n")
    figure(counts, found).write_html(folder / "ocaml_top_heap.html", include_plotlyjs=True)
    print("\n".join(lines(counts, found)))


if __name__ == "__main__":
    main(sys.argv[1:])
