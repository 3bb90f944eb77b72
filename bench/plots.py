"""The plots of a benchmark: where each allocator lies between time and memory, and its ratios per workload."""

import pathlib

import plotly.graph_objects as go
from report import METRICS, Results

GROUPS = ("synthetic", "real")


def _plane(results: Results, group: str) -> go.Figure:
    """One point an allocator: CPU time against peak RSS, with the intervals as bars. Lower left is better."""
    figure = go.Figure()
    for arm in [*results.arms, None]:
        time, memory = results.mean(group, arm, "cpu_s"), results.mean(group, arm, "peak_rss_bytes")
        if time is None or memory is None:
            continue
        bars = (
            {}
            if time.count < 2
            else {
                "error_x": {"array": [time.high - time.value], "arrayminus": [time.value - time.low], "thickness": 1},
                "error_y": {
                    "array": [memory.high - memory.value],
                    "arrayminus": [memory.value - memory.low],
                    "thickness": 1,
                },
            }
        )
        figure.add_scatter(
            x=[time.value],
            y=[memory.value],
            text=[arm or "oracle"],
            mode="markers+text",
            textposition="top right",
            name=arm or "oracle (best peer)",
            **bars,
        )
    figure.update_layout(
        title=f"{group} programs: geometric means over {results.reference}",
        height=560,
        xaxis_title="CPU time (lower is better)",
        yaxis_title="peak RSS (lower is better)",
    )
    return figure


def _bars(results: Results, metric: str) -> go.Figure:
    """One group of bars a cell, one bar an allocator."""
    figure = go.Figure()
    cells = results.sorted_cells()
    labels = [f"{cell[1]}/{cell[2]}" if cell[2] else cell[1] for cell in cells]
    for arm in results.arms:
        ratios = [results.ratio(cell, arm, metric) for cell in cells]
        figure.add_bar(name=arm, x=labels, y=[one.value if one else None for one in ratios])
    figure.update_layout(title=f"{METRICS[metric]} per workload over {results.reference}", barmode="group", height=480)
    figure.update_yaxes(type="log")
    return figure


def write(path: pathlib.Path, results: Results) -> None:
    """One self-contained page."""
    figures = [_plane(results, group) for group in GROUPS] + [_bars(results, metric) for metric in METRICS]
    parts = [figure.to_html(full_html=False, include_plotlyjs=(n == 0)) for n, figure in enumerate(figures)]
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mortise bench</title></head><body>'
        + "".join(parts)
        + "</body></html>"
    )
