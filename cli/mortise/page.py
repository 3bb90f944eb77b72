"""A comparison as one HTML file: everything inside, nothing fetched, so that it can be sent to a colleague."""

import shlex
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from mortise import curve_report, formats, latency_plot, latency_table, table
from mortise.drawing import COLOURS, LAYOUT, html_of, template
from mortise.figures import memory_base, memory_key, memory_of, more_is_better, peaks_are_exact, runs_of, time_of
from mortise.session import Settings


def render(document: dict[str, Any]) -> str:
    plots = [
        ("front", "Space and time, every run", front(document)),
        ("runs", "Every run, in the order of the rounds", strip(document)),
    ]
    if document["curves"]:
        plots.insert(0, ("curves", "Time and space as the knob turns; the unset point is ringed", knobs(document)))
    if (document.get("profile") or {}).get("sizes"):
        plots.append(("sizes", "What the program asks for", histogram(document["profile"], "sizes", "size, bytes")))
        label = "allocations made while a block lived"
        plots.append(("ages", "How long blocks live", histogram(document["profile"], "ages", label)))
    for kind in ("malloc", "free"):
        if document.get("latency"):
            heading = f"How long one {kind} takes (a run apart; calls torn by a preemption left out)"
            plots.append((f"latency-{kind}", heading, latency_plot.curves(document["latency"], kind)))
    if series := over_time(document):
        plots.append(("memory", "Memory over time (one memory run of each arm)", series))
    return template("report.html.j2").render(
        title=table.title(document),
        verdict=document["conclusion"]["sentence"],
        notes=table.notes(document)[:-1],
        headings=table.headings(document),
        rows=table.rows(document),
        classes=[row_class(document, n) for n in document["arms"]],
        plots=[(name, heading, html_of(name, figure)) for name, heading, figure in plots],
        plotly=get_plotlyjs(),
        points=curve_report.table(document),
        costs=costs(document),
        calls=system_calls(document),
        latency=latency_rows(document),
        facts=facts(document),
        repeat=repeat(document),
        raw=formats.dumps(document).replace("</", "<\\/"),
    )


def row_class(document: dict[str, Any], name: str) -> str:
    entry = document["arms"][name]
    if entry["failure"]:
        return "failed"
    return "best" if name == document["conclusion"]["best"] else ""


def colour(document: dict[str, Any], name: str) -> str:
    return COLOURS[list(document["arms"]).index(name) % len(COLOURS)]


def time_axis(document: dict[str, Any]) -> tuple[str, str]:
    settings = document["settings"]
    if settings["metric_regex"]:
        return "metric", "the program's own number"
    return {"cpu": ("cpu_s", "CPU time, s"), "wall": ("wall_s", "wall time, s")}[settings["time"]]


def front(document: dict[str, Any]) -> go.Figure:
    """Memory runs as dots, their medians as large marks: left and low is good."""
    key, label = time_axis(document)
    memory, base = memory_key(document), memory_base(document)
    figure = go.Figure(layout=LAYOUT)
    sides = ("top center", "bottom center", "middle right", "middle left", "top right", "bottom left", "bottom right", "top left")
    for place, (name, entry) in enumerate(document["arms"].items()):
        runs = [r for r in runs_of(entry, "memory") if r.get(key) is not None]
        if not runs:
            continue
        shown = runs if document["settings"].get("repeat_inside", 1) == 1 else []  # these ran main once: their time is another
        figure.add_scatter(
            x=[r[key] for r in shown],
            y=[(r[memory] - base) / 2**20 for r in shown],
            mode="markers",
            marker={"color": colour(document, name), "size": 6, "opacity": 0.45},
            name=name,
            legendgroup=name,
            showlegend=False,
        )
        medians = entry["medians"]
        if key in medians and memory in medians:
            figure.add_scatter(
                x=[medians[key]],
                y=[(medians[memory] - base) / 2**20],
                mode="markers+text",
                text=[name],
                textposition=sides[place % len(sides)],
                marker={"color": colour(document, name), "size": 13, "line": {"width": 1, "color": "#222"}},
                name=name,
                legendgroup=name,
            )
    figure.update_xaxes(title=label, rangemode="tozero")
    figure.update_yaxes(title="memory above the bare image, MiB", rangemode="tozero")
    return figure


def knobs(document: dict[str, Any]) -> go.Figure:
    """Each arm's points with their values, every run behind them, its law where one holds, and a ring where its default lies."""
    figure = go.Figure(layout=LAYOUT)
    top = max((p["memory"] for report in document["curves"].values() for p in report["points"]), default=0.0)
    for place, (name, report) in enumerate(document["curves"].items()):
        points = sorted(report["points"], key=lambda p: p["time"])
        style, time = {"color": colour(document, name)}, time_of(document)
        kind = "time" if peaks_are_exact(document, [document["arms"][name]]) else "memory"
        runs = [run for run in document["arms"][name]["runs"] if run["kind"] == kind]
        above = [memory_of(document)(run) / 2**20 for run in runs]
        figure.add_scatter(x=[time(run) for run in runs], y=above, mode="markers", name=f"{name}: runs", legendgroup=name,
                           showlegend=False, marker=style | {"size": 4, "opacity": 0.35})  # fmt: skip
        figure.add_scatter(
            x=[p["time"] for p in points], y=[p["memory"] / 2**20 for p in points], text=[p["knob"] for p in points],
            mode="markers+text", textposition=("top center", "bottom center")[place % 2], textfont=style,
            marker=style | {"size": 8}, name=name, legendgroup=name,
        )  # fmt: skip
        if law := report["law"]:
            last = points[-1]["time"] * 1.05
            first = law["a"] + law["b"] / (1.1 * top - law["c"])
            times = [first + (last - first) * i / 120 for i in range(121)]
            curve = [(law["c"] + law["b"] / (t - law["a"])) / 2**20 for t in times]
            figure.add_scatter(x=times, y=curve, mode="lines", line=style, name=f"{name}: law", legendgroup=name)
            limits(figure, law, style["color"])
        for point in points:
            if point["knob"] == "unset":
                ring = {"size": 18, "color": "rgba(0,0,0,0)", "line": {"width": 2, "color": colour(document, name)}}
                figure.add_scatter(x=[point["time"]], y=[point["memory"] / 2**20], mode="markers", marker=ring,
                                   name=f"{name} by default", legendgroup=name)  # fmt: skip
    figure.update_xaxes(title="inverse of the program's own number" if more_is_better(document) else time_axis(document)[1])
    figure.update_yaxes(title="memory above the bare image, MiB", rangemode="tozero")
    return figure


def limits(figure: go.Figure, law: dict[str, Any], shade: str) -> None:
    """What the law comes near to and never reaches, the time without collecting and the least memory, each with its interval."""
    band, line = {"fillcolor": shade, "opacity": 0.07, "line_width": 0}, {"line": {"dash": "dot", "width": 1, "color": shade}}
    least = [v / 2**20 for v in law["intervals"]["c"]]
    figure.add_vrect(x0=law["intervals"]["a"][0], x1=law["intervals"]["a"][1], **band)
    figure.add_hrect(y0=least[0], y1=least[1], **band)
    figure.add_vline(x=law["a"], **line)
    figure.add_hline(y=law["c"] / 2**20, **line)


def histogram(profile: dict[str, Any], what: str, label: str) -> go.Figure:
    """Counts over powers of two."""
    counts = profile[what]
    used = [n for n, count in enumerate(counts) if count]
    span = range(min(used, default=0), max(used, default=0) + 1)
    names = ["0" if n == 0 else formats.size(2**n - 1) if what == "sizes" else f"{2**n - 1:,}" for n in span]
    figure = go.Figure(go.Bar(x=names, y=[counts[n] for n in span], marker={"color": COLOURS[0]}), layout=LAYOUT)
    figure.update_xaxes(title=f"{label}, up to", type="category")
    figure.update_yaxes(title="blocks")
    return figure


def strip(document: dict[str, Any]) -> go.Figure:
    key, label = time_axis(document)
    figure = go.Figure(layout=LAYOUT)
    for name, entry in document["arms"].items():
        runs = [r for r in runs_of(entry, "time") if r.get(key) is not None]
        text = [f"{name}, round {r['round']}, place {r['position'] + 1}, {r['minor_faults']} faults" for r in runs]
        figure.add_scatter(
            x=[r["round"] for r in runs],
            y=[r[key] for r in runs],
            mode="markers",
            text=text,
            name=name,
            marker={"color": colour(document, name), "size": 7},
        )
    figure.update_xaxes(title="round")
    figure.update_yaxes(title=label, rangemode="tozero")
    return figure


def over_time(document: dict[str, Any]) -> go.Figure | None:
    figure = go.Figure(layout=LAYOUT)
    for name, entry in document["arms"].items():
        series = next((r["series"] for r in reversed(entry["runs"]) if len(r.get("series", [])) > 1), None)
        if series:
            figure.add_scatter(
                x=[t for t, _ in series],
                y=[b / 2**20 for _, b in series],
                mode="lines",
                name=name,
                line={"color": colour(document, name)},
            )
    if not figure.data:
        return None
    figure.update_xaxes(title="seconds since the start")
    figure.update_yaxes(title="resident memory, MiB", rangemode="tozero")
    return figure


def costs(document: dict[str, Any]) -> list[list[str]]:
    """Where time went that is not the arm's own, in the median of its time rounds; what the processor counted in its warm-up."""
    rows = [["arm", "user", "system", "page faults", "involuntary switches", "instructions", "cycles"]]
    for name, entry in document["arms"].items():
        m = entry["medians"]
        if "user_s" in m:
            counts = [f"{m[key]:.0f}" for key in ("minor_faults", "involuntary_switches")]
            counted = [formats.count(m.get(key)) for key in ("instructions", "cycles")]
            rows.append([name, formats.seconds(m["user_s"]), formats.seconds(m["sys_s"]), *counts, *counted])
    return rows


CALLS_SHOWN = ("mmap", "munmap", "mremap", "madvise", "mprotect", "brk", "futex", "sched_yield", "membarrier", "all")


def system_calls(document: dict[str, Any]) -> list[list[str]]:
    """What an allocator asks the kernel for, counted in a run of each arm apart."""
    rows = [["arm", *CALLS_SHOWN]]
    for name, found in (document.get("system_calls") or {}).items():
        shown = [f"{found['counts'][call]:,}" for call in CALLS_SHOWN] if not found["failure"] else [found["failure"]]
        rows.append([name, *shown])
    return rows if len(rows) > 1 else []


def latency_rows(document: dict[str, Any]) -> list[list[str]]:
    """Percentiles of malloc and free, and of nothing timed in the same way."""
    found = document.get("latency")
    rows = [["arm", "call", *latency_table.headings()]]
    for kind in ("malloc", "free", "empty"):
        for name, entry in found["arms"].items() if found else ():
            shown = [entry["failure"]] if entry["failure"] else latency_table.cells(entry["kinds"][kind])
            rows.append([name, kind, *shown])
    return rows if len(rows) > 1 else []


def facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured, where and how."""
    rows = [("created", document["created"]), ("mortise", document["mortise"])]
    rows += [(f"machine: {key}", str(value)) for key, value in document["machine"].items()]
    rows += [(f"setting: {key}", str(value)) for key, value in document["settings"].items() if value is not None]
    rows += [("latency", line) for line in (latency_table.notes(document["latency"]) if document.get("latency") else [])]
    rows += [("preflight", f["text"]) for f in document["preflight"].get("findings", [])]
    for name, entry in document["arms"].items():
        how = entry["library"] or " ".join(entry["argv"] or []) or "nothing preloaded"
        env = " ".join(f"{k}={v}" for k, v in entry["env"].items())
        rows.append(
            (f"arm: {name}", f"{' '.join((how, env)).strip()}; malloc came from {', '.join(entry['malloc_from']) or 'an unknown place'}")
        )
    return rows


def repeat(document: dict[str, Any]) -> str:
    settings = document["settings"]
    words = ["mortise", "compare"]
    for name in document["arms"]:
        words += ["--arms", spec(name, document["arms"][name])]
    words += [
        "--time",
        settings["time"],
        "--mem",
        settings["memory"],
        "--resolve",
        f"{settings['resolve'] * 100:g}%",
        "--budget",
        f"{settings['budget_s']:g}s",
        "--seed",
        str(settings["seed"]),
    ]
    if document.get("latency"):
        words += ["--latency", "full" if document["latency"]["settings"]["every"] == 1 else "sampled"]
    words += [word for text in settings["sweeps"] for word in ("--sweep", text)]
    words += [word for text in settings.get("fail_if", []) for word in ("--fail-if", text)]
    if settings.get("metric_better") == "less":
        words.append("--metric-less")
    usual = Settings().document()
    for option, key, unit in (("--check", "check", ""), ("--rounds", "rounds_max", ""), ("--warmup", "warmup", ""), ("--repeat-inside", "repeat_inside", ""), ("--timeout", "timeout_s", "s")):
        if settings.get(key, usual[key]) != usual[key]:
            words += [option, f"{settings[key]:g}{unit}" if unit else str(settings[key])]
    for option, key in (
        ("--ready", "ready"),
        ("--load", "load"),
        ("--stop", "stop"),
        ("--metric-regex", "metric_regex"),
        ("--stdin", "stdin"),
    ):
        if settings[key]:
            words += [option, settings[key]]
    return shlex.join([*words, "--", *document["argv"]])


def spec(name: str, entry: dict[str, Any]) -> str:
    """An arm as the command line takes it."""
    if entry["kind"] == "environment":
        return f"{name}=env:" + ",".join(f"{k}={v}" for k, v in entry["env"].items())
    if entry["kind"] == "command":
        return f"{name}=cmd:{shlex.join(entry['argv'])}"
    return name
