"""Time against memory in characters: left and low is good. The page has the same picture with every run in it."""

from typing import Any

from mortise import formats
from mortise.figures import memory_base, memory_key

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
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    names = list(dict.fromkeys(name for name, _, _ in shown))
    for name, x, y in shown:
        mark = chr(ord("a") + names.index(name) % 26)
        row, column = HEIGHT - 1 - int(y / top * (HEIGHT - 1)), int(x / right * (WIDTH - 1))
        while column < WIDTH - 1 and grid[row][column] not in (" ", mark):  # marks that would hide each other stand side by side
            column += 1
        grid[row][column] = mark
    legend = [f"{chr(ord('a') + number % 26)} {name}" for number, name in enumerate(names)]
    settings = document["settings"]
    inverse = " (inverse)" if document["curves"] and settings.get("metric_better", "more") == "more" else ""
    end = f"{right:.4g}{inverse}" if settings["metric_regex"] else formats.seconds(right)
    edge = [formats.size(top) if n == 0 else "0" if n == HEIGHT - 1 else "" for n in range(HEIGHT)]
    lines = [f"{label:>9} |{''.join(cells).rstrip()}" for label, cells in zip(edge, grid, strict=True)]
    return [*lines, f"{'':>9} +{'-' * WIDTH}", f"{'memory':>9}  0{end:>{WIDTH - 1}}", f"{'':>9}  {'  '.join(legend)}"]
