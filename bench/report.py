"""What the benchmark prints: ratios per workload, geometric means with intervals, the oracle, the pair table."""

import copy
import statistics
from collections import Counter, defaultdict

import stats
from rich.console import Console, Group
from rich.table import Table

METRICS = {"cpu_s": "CPU time", "wall_s": "wall time", "peak_rss_bytes": "peak RSS", "avg_rss_bytes": "average RSS"}


class Results:
    """Runs arranged for reading: by cell, arm and round, failures set apart."""

    def __init__(self, runs: list[dict], suite: dict, arms: list[str], reference: str, peers: list[str]):
        self.suite, self.arms, self.reference = suite, arms, reference
        self.peers = [name for name in arms if name in peers]
        self.failures: dict[str, str] = {}
        truth = self._answers(runs)
        self.cells: dict[tuple, dict[str, dict[int, dict]]] = defaultdict(lambda: defaultdict(dict))
        for run in runs:
            cell = (run["group"], run["workload"], run["threads"])
            label = f"{run['workload']}/{run['threads']}" if run["threads"] else run["workload"]
            if run.get("failed"):
                self.failures[f"{run['arm']} on {label}"] = run["failed"]
            elif run["answer"] != truth[cell]:
                self.failures[f"{run['arm']} on {label}"] = "its answer differs from the others'"
            else:
                self.cells[cell][run["arm"]][run["round"]] = run

    @staticmethod
    def _answers(runs: list[dict]) -> dict[tuple, str]:
        """The answer most arms give is the right one."""
        seen = defaultdict(Counter)
        for run in runs:
            if not run.get("failed"):
                seen[run["group"], run["workload"], run["threads"]][run["answer"]] += 1
        return {cell: counts.most_common(1)[0][0] for cell, counts in seen.items()}

    def over(self, reference: str) -> "Results":
        """The same runs with another reference."""
        other = copy.copy(self)
        other.reference = reference
        return other

    def ratio(self, cell: tuple, arm: str, metric: str) -> stats.Ratio | None:
        """Arm over reference in one cell, from the rounds that both have."""
        mine, theirs = self.cells[cell].get(arm, {}), self.cells[cell].get(self.reference, {})
        return stats.ratio([(mine[n][metric], theirs[n][metric]) for n in sorted(mine.keys() & theirs.keys())])

    def oracle(self, cell: tuple, metric: str) -> stats.Ratio | None:
        """The best peer of one cell. A minimum over noisy figures flatters; it is a bound, not an allocator."""
        known = [one for one in (self.ratio(cell, name, metric) for name in self.peers) if one]
        return min(known, key=lambda one: one.value) if known else None

    def mean(self, group: str, arm: str | None, metric: str) -> stats.Ratio | None:
        """The geometric mean of a group (no arm: the oracle); a workload's thread counts share its weight."""
        parts = []
        for name, entry in self.suite[group].items():
            cells = [cell for cell in self.cells if cell[:2] == (group, name)]
            known = [
                one for one in (self.ratio(c, arm, metric) if arm else self.oracle(c, metric) for c in cells) if one
            ]
            parts += [(one, entry["weight"] / len(known)) for one in known]
        return stats.geometric_mean(parts)

    def sorted_cells(self) -> list[tuple]:
        order = [name for group in ("synthetic", "real") for name in self.suite[group]]
        return sorted(self.cells, key=lambda cell: (order.index(cell[1]), cell[2]))

    def median(self, cell: tuple, arm: str, metric: str) -> float | None:
        values = [run[metric] for run in self.cells[cell].get(arm, {}).values()]
        return statistics.median(values) if values else None


def _bare(one: stats.Ratio | None) -> str:
    if one is None:
        return "-"
    # A figure whose interval holds 1 is not a difference, and is printed dim.
    return f"{one.value:.2f}" if one.resolved or one.count == 1 else f"[dim]{one.value:.2f}[/dim]"


def _with_interval(one: stats.Ratio | None) -> str:
    if one is None:
        return "-"
    return f"{one.value:.3f}" + (f" [dim]{one.low:.2f}-{one.high:.2f}[/dim]" if one.count > 1 else "")


COLUMNS_MOST = 10  # arms beside each other; with more of them the table goes on in another one


def workloads(results: Results, metric: str) -> Group:
    """One row a cell: each arm over the reference, and the best peer."""
    pieces = [results.arms[at : at + COLUMNS_MOST] for at in range(0, len(results.arms), COLUMNS_MOST)]
    return Group(*(_workloads_of(results, metric, arms) for arms in pieces))


def _workloads_of(results: Results, metric: str, arms: list[str]) -> Table:
    table = Table(title=f"{METRICS[metric]}, over {results.reference} (lower is better; dim: not resolved)")
    table.add_column("workload")
    for arm in [*arms, "best peer"]:
        table.add_column(arm, justify="right")
    table.add_column("rounds", justify="right")
    table.add_column(f"{results.reference}, {'s' if metric.endswith('_s') else 'MiB'}", justify="right")
    for cell in results.sorted_cells():
        ratios = [results.ratio(cell, arm, metric) for arm in arms]
        best = results.oracle(cell, metric)
        absolute = results.median(cell, results.reference, metric)
        shown = "-" if absolute is None else f"{absolute:.2f}" if metric.endswith("_s") else f"{absolute / 2**20:.1f}"
        rounds = max((one.count for one in ratios if one), default=0)
        table.add_row(_label(cell), *map(_bare, ratios), _bare(best), str(rounds), shown)
    return table


def _label(cell: tuple) -> str:
    return f"{cell[1]}/{cell[2]}" if cell[2] else cell[1]


def summary(results: Results) -> Table:
    """Geometric means, synthetic and real apart, with intervals; the last row is the best peer of every cell."""
    table = Table(title=f"geometric means over {results.reference}, 95 % intervals (lower is better)")
    table.add_column("allocator")
    for metric in METRICS.values():
        for group in ("synthetic", "real"):
            table.add_column(f"{metric}\n{group}", justify="right")
    for arm in [*results.arms, None]:
        row = [
            _with_interval(results.mean(group, arm, metric)) for metric in METRICS for group in ("synthetic", "real")
        ]
        table.add_row(arm or "oracle (best peer)", *row)
    return table


def control(results: Results) -> str:
    """The A/A control in one line: an arm over itself; an interval without 1 says that the noise is not covered."""
    again = next((arm for arm in results.arms if arm.endswith(" again")), None)
    if again is None:
        return ""
    against_itself = results.over(again.removesuffix(" again"))
    parts = []
    for metric, name in METRICS.items():
        for group in ("synthetic", "real"):
            one = against_itself.mean(group, again, metric)
            if one and one.count > 1:
                parts.append(f"{name} {group} {one.value:.3f} ({one.low:.3f} to {one.high:.3f})")
    return f"control, {again} over itself: " + "; ".join(parts) if parts else ""


def kernel(results: Results) -> Table:
    """What the kernel did for each arm: system time and page faults, summed over the medians of all cells."""
    table = Table(title="the kernel's part: sums over all cells of the medians")
    for column in ("allocator", "CPU s", "of it system s", "minor faults", "major faults"):
        table.add_column(column, justify="left" if column == "allocator" else "right")
    for arm in results.arms:
        cells = [cell for cell in results.cells if arm in results.cells[cell]]
        sums = [
            sum(results.median(cell, arm, metric) or 0 for cell in cells)
            for metric in ("cpu_s", "sys_s", "minor_faults", "major_faults")
        ]
        table.add_row(arm, f"{sums[0]:.2f}", f"{sums[1]:.2f}", f"{sums[2]:,.0f}", f"{sums[3]:,.0f}")
    return table


def pairs(table_of: dict[str, list[dict]]) -> Table:
    """Nanoseconds per malloc/free pair: LIFO, and in brackets batches of 50."""
    table = Table(title="ns per malloc/free pair: LIFO (batches of 50)")
    table.add_column("allocator")
    for entry in next(iter(table_of.values()), []):
        size = entry["size"]
        table.add_column(f"{size} B" if size < 1024 else f"{size // 1024} KB", justify="right")
    for name, entries in table_of.items():
        table.add_row(name, *(f"{e['lifo_ns']:.1f} ({e['batch_ns']:.1f})" for e in entries))
    return table


def print_all(console: Console, results: Results, pair_table: dict, arms: dict, missing: dict[str, str]) -> None:
    """Everything, in reading order: who took part, cells, means, kernel, pairs, failures."""
    took_part = Table(title="who took part")
    for column in ("allocator", "what", "version", "library"):
        took_part.add_column(column)
    for name, arm in arms.items():
        took_part.add_row(name, arm.title, arm.version, arm.library)
    for name, reason in missing.items():
        took_part.add_row(name, "missing", "", reason)
    console.print(took_part)
    if results.cells:
        console.print(workloads(results, "cpu_s"), workloads(results, "wall_s"), workloads(results, "peak_rss_bytes"))
        console.print(workloads(results, "avg_rss_bytes"), summary(results), control(results), kernel(results))
    if pair_table:
        console.print(pairs(pair_table))
    for what, why in results.failures.items():
        console.print(f"failed: {what}: {why}")
