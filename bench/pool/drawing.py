"""The scaling plots of docs/pools.md as one small SVG: text that a repository can keep and a browser can show."""

import math
import pathlib

COLOURS = ["#1b6ca8", "#c8553d", "#588157", "#7b5ea7", "#b08900", "#444444", "#2a9d8f", "#d1495b", "#8d99ae"]
DASHES = ["", "6 3", "2 3"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 420, 300, 52, 34, 40, 185


class Panel:
    """Lines over a logarithmic scale of 2 to the right; upwards a logarithmic scale, too."""

    def __init__(self, title: str, across: str, xs: list[int], values: list[float], at: float) -> None:
        self.xs, self.at, self.out = xs, at, []
        self.low, self.high = 10 ** math.floor(math.log10(min(values))), max(values) * 1.15
        self.text(LEFT, 16, title, weight="bold")
        self.text(LEFT + (WIDTH - LEFT) / 2, HEIGHT - 6, across, anchor="middle")
        for x in xs:
            self.text(self.x(x), HEIGHT - BOTTOM + 16, str(x), anchor="middle")
        for tick in (m * 10**e for e in range(-1, 5) for m in (1, 2, 5)):
            if self.low <= tick <= self.high:
                y = self.y(tick)
                line = f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                self.out.append(line)
                self.text(LEFT - 6, y + 4, f"{tick:g}", anchor="end")

    def x(self, value: float) -> float:
        """Where a number of pools or threads lies."""
        first, last = math.log2(self.xs[0]), math.log2(self.xs[-1])
        return LEFT + 14 + (math.log2(value) - first) / (last - first) * (WIDTH - LEFT - 28)

    def y(self, value: float) -> float:
        """Where a number of nanoseconds lies."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def text(self, x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> None:
        """Words at a place."""
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>')

    def line(self, number: int, name: str, points: list[tuple[int, float]], colour: str, dash: str) -> None:
        """One line, and its entry in the legend."""
        look = f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.out.append(f'<polyline points="{path}" {look}/>')
        self.out += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.4" fill="{colour}"/>' for x, y in points]
        row = TOP + 6 + number * 17
        self.out.append(f'<polyline points="{WIDTH + 12},{row} {WIDTH + 36},{row}" {look}/>')
        self.text(WIDTH + 42, row + 4, name)

    def group(self) -> str:
        """All of it, moved to its place."""
        return f'<g transform="translate({self.at} 0)">' + "\n".join(self.out) + "</g>"


def panel(title: str, across: str, lines: dict[str, list], looks: dict[str, tuple[str, str]], at: float) -> str:
    """A panel of named lines of points (number, nanoseconds)."""
    points = [p for some in lines.values() for p in some]
    drawn = Panel(title, across, sorted({x for x, _ in points}), [y for _, y in points], at)
    for number, (name, some) in enumerate(lines.items()):
        drawn.line(number, name, some, *looks[name])
    return drawn.group()


def draw(cells: dict[tuple, dict], rules: list[str], threads: list[int], path: pathlib.Path) -> None:
    """Scaling over pools (the original experiment) and over threads (the fast pool and what others use)."""
    by_pools, looks = {}, {}
    for colour, rule in zip(COLOURS, rules, strict=False):
        for dash, count in zip(DASHES, threads, strict=False):
            name = f"{rule.removeprefix('by_')}, {count}"
            found = [(int(c[1].partition(":")[2]), m["wall_ns"]) for c, m in sorted(cells.items())
                     if c[0] == f"grid:{rule}" and c[2] == count and c[3] == 1_000_000 and m["valid"]]
            if found:
                by_pools[name], looks[name] = found, (colour, dash)
    by_threads: dict[str, list] = {}
    for (part, design, count, _), m in sorted(cells.items(), key=lambda cell: (cell[0][1], cell[0][2])):
        if part == "pair" and not design.startswith(("by_core/", "distributed-none", "malloc tbb")):
            by_threads.setdefault(design, []).append((count, m["cpu_ns"]))
    by_threads = dict(sorted(by_threads.items(), key=lambda item: -item[1][-1][1]))  # as they lie at the right
    for number, name in enumerate(by_threads):
        looks[name] = (COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS)])
    wide = WIDTH + LEGEND
    left = panel("CRC test: wall ns an operation", "pools (rule, threads at the right)", by_pools, looks, 0)
    right = panel("acquire and release: CPU ns", "threads", by_threads, looks, wide + 20)
    tall = max(HEIGHT, TOP + 17 * max(len(by_pools), len(by_threads)) + 10)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * wide + 20} {tall}" font-family="sans-serif" font-size="12">'
    path.write_text(f'{head}\n<rect width="100%" height="100%" fill="white"/>\n{left}\n{right}\n</svg>\n')
