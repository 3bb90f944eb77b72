"""Time against memory in characters: left and low is good. The page has the same picture with every run in it."""

from typing import Any

from mortise import formats
from mortise.figures import memory_base, memory_key, more_is_better

WIDTH, HEIGHT = 56, 9


def points(document: dict[str, Any]) -> list[tuple[str, float, float]]:
    """The median of each arm that has one on both axes; where a knob was turned, every point of its curve."""
    if document["curves"]:
        return [(name, p["time"], p["memory"]) for name, curve in document["curves"].items() for p in curve["points"]]
    settings = document["settings"]
    time = "metric" if settings["metric_regex"] else {"cpu": "cpu_s", "wall": "wall_s"}[settings["time"]]
    memory, base = memory_key(document), memory_base(document)
    found = []
    for name, entry in document["arms"].items():
        medians = entry["medians"]
        if not entry["failure"] and time in medians and memory in medians:
            found.append((name, medians[time], max(medians[memory] - base, 0)))
    return found


def draw(document: dict[str, Any]) -> list[str]:
    """The picture with its legend; nothing for fewer than two points."""
    shown = points(document)
    if len(shown) < 2:
        return []
    right, top = (max(p[axis] for p in shown) * 1.05 or 1.0 for axis in (1, 2))
    # A curve is looked at for its shape; arms are set against nothing at all.
    left, bottom = (min(p[axis] for p in shown) * 0.95 if document["curves"] else 0.0 for axis in (1, 2))
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    names = list(dict.fromkeys(name for name, _, _ in shown))
    for name, x, y in shown:
        mark = chr(ord("a") + names.index(name) % 26)
        row, column = HEIGHT - 1 - int((y - bottom) / (top - bottom) * (HEIGHT - 1)), int((x - left) / (right - left) * (WIDTH - 1))
        while column < WIDTH - 1 and grid[row][column] not in (" ", mark):  # marks that would hide each other stand side by side
            column += 1
        grid[row][column] = mark
    legend = [f"{chr(ord('a') + number % 26)} {name}" for number, name in enumerate(names)]
    settings = document["settings"]
    begin, end = ("0" if x == 0 else f"{x:.4g}" if settings["metric_regex"] else formats.seconds(x) for x in (left, right))
    own = "its own number" if not document["curves"] or not more_is_better(document) else "inverse of its own number"
    label = own if settings["metric_regex"] else {"cpu": "CPU time", "wall": "wall time"}[settings["time"]]
    edge = [formats.size(top) if n == 0 else (formats.size(bottom) if bottom else "0") if n == HEIGHT - 1 else "" for n in range(HEIGHT)]
    lines = [f"{label:>9} |{''.join(cells).rstrip()}" for label, cells in zip(edge, grid, strict=True)]
    return [*lines, f"{'':>9} +{'-' * WIDTH}", f"{'memory':>9}  {begin}{label:^{WIDTH - len(begin + end)}}{end}", f"{'':>9}  {'  '.join(legend)}"]
