"""Latencies as one HTML file: every percentile on an axis of nines, time on a logarithmic one; nothing is fetched."""

import shlex
from typing import Any

import jinja2
import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from mortise import formats, latency_table, page

NINES = (("0", 0.0), ("90", 1.0), ("99", 2.0), ("99.9", 3.0), ("99.99", 4.0), ("99.999", 5.0), ("99.9999", 6.0), ("99.99999", 7.0))
HEADINGS = {"free": "free", "empty": "Nothing, timed in the same way: what clock and machine add to every figure"}


def render(document: dict[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mortise"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("latency.html.j2").render(
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
        figure = curves(document, kind)
        rows = [[name, *latency_table.cells(entry["kinds"][kind])]
                for name, entry in document["arms"].items() if not entry["failure"]]  # fmt: skip
        found.append(
            {"id": kind, "heading": HEADINGS.get(kind, kind), "headings": ["arm", *latency_table.headings()], "rows": rows,
             "plot": page.html_of(f"plot-{kind}", figure)}
        )  # fmt: skip
    return found


def curves(document: dict[str, Any], kind: str) -> go.Figure:
    """Time below which a share of the calls stayed; calls that a preemption tore are left out."""
    figure = go.Figure(layout=page.LAYOUT)
    for place, (name, entry) in enumerate(document["arms"].items()):
        histogram = entry["kinds"][kind]["histogram"]
        if entry["failure"] or not histogram:
            continue
        counts = np.cumsum([count for _, count in histogram])
        above = 1 - (counts - 0.5) / counts[-1]  # the last call is half a call away from certainty
        shares = [f"{100 * (1 - a):.7g} % within {formats.seconds(ns * 1e-9)}" for a, (ns, _) in zip(above, histogram, strict=True)]
        figure.add_scatter(
            x=list(-np.log10(above)), y=[ns for ns, _ in histogram], mode="lines+markers", line={"shape": "hv"},
            marker={"size": 3, "color": page.COLOURS[place % len(page.COLOURS)]}, name=name, text=shares,
            hovertemplate="%{text}",
        )  # fmt: skip
    figure.update_xaxes(title="percentile", tickvals=[at for _, at in NINES], ticktext=[text for text, _ in NINES])
    figure.update_yaxes(title="nanoseconds", type="log", dtick=1)
    return figure
