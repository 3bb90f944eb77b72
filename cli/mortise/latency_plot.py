"""Latencies as curves: every percentile on an axis of nines, time on a logarithmic one."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from mortise import formats
from mortise.drawing import COLOURS, LAYOUT

NINES = (("0", 0.0), ("90", 1.0), ("99", 2.0), ("99.9", 3.0), ("99.99", 4.0), ("99.999", 5.0), ("99.9999", 6.0), ("99.99999", 7.0))


def curves(document: dict[str, Any], kind: str) -> go.Figure:
    """Time below which a share of the calls stayed; calls that a preemption tore are left out."""
    figure = go.Figure(layout=LAYOUT)
    for place, (name, entry) in enumerate(document["arms"].items()):
        histogram = entry["kinds"][kind]["histogram"]
        if entry["failure"] or not histogram:
            continue
        counts = np.cumsum([count for _, count in histogram])
        above = 1 - (counts - 0.5) / counts[-1]  # the last call is half a call away from certainty
        shares = [f"{100 * (1 - a):.7g} % within {formats.seconds(ns * 1e-9)}" for a, (ns, _) in zip(above, histogram, strict=True)]
        figure.add_scatter(
            x=list(-np.log10(above)), y=[ns for ns, _ in histogram], mode="lines+markers", line={"shape": "hv"},
            marker={"size": 3, "color": COLOURS[place % len(COLOURS)]}, name=name, text=shares,
            hovertemplate="%{text}",
        )  # fmt: skip
    figure.update_xaxes(title="percentile", tickvals=[at for _, at in NINES], ticktext=[text for text, _ in NINES])
    figure.update_yaxes(title="nanoseconds", type="log", dtick=1)
    return figure
