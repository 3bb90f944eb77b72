"""Latencies as one HTML file: every percentile on an axis of nines, time on a logarithmic one; nothing is fetched."""

import shlex
from typing import Any

from plotly.offline import get_plotlyjs

from mortise import formats, latency_plot, latency_table
from mortise.drawing import html_of, template

HEADINGS = {"free": "free", "empty": "Nothing, timed in the same way: what clock and machine add to every figure"}


def render(document: dict[str, Any]) -> str:
    return template("latency.html.j2").render(
        title="mortise latency -- " + shlex.join(document["argv"]),
        sections=sections(document),
        slow=[(name, [latency_table.slow_cells(c) for c in entry["slow"]], [latency_table.slow_cells(c) for c in entry["torn"]])
              for name, entry in document["arms"].items() if not entry["failure"]],
        notes=latency_table.notes(document),
        plotly=get_plotlyjs(),
        raw=formats.dumps(document).replace("</", "<\\/"),
    )  # fmt: skip


def sections(document: dict[str, Any]) -> list[dict[str, Any]]:
    """For each kind of call its heading, its plot and its table."""
    found = []
    for kind in [*latency_table.kinds_shown(document), "empty"]:
        figure = latency_plot.curves(document, kind)
        rows = [[name, *latency_table.cells(entry["kinds"][kind])]
                for name, entry in document["arms"].items() if not entry["failure"]]  # fmt: skip
        found.append(
            {"id": kind, "heading": HEADINGS.get(kind, kind), "headings": ["arm", *latency_table.headings()], "rows": rows,
             "plot": html_of(f"plot-{kind}", figure)}
        )  # fmt: skip
    return found
