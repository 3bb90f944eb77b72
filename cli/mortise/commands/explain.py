"""`mortise explain`: an allocator layer by layer, in the order a request travels."""

from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from mortise import catalogue, formats, screen


def command(
    name: str = typer.Argument(..., help="The allocator, as 'mortise list' shows it; a .so or .toml of 'mortise build'."),
    as_json: bool = typer.Option(False, "--json", help="Print the description itself (schema mortise.allocator/1)."),
) -> None:
    """Show what an allocator is made of: its layers, their policies and sizes, what they promise and cost."""
    found = catalogue.found(name)
    if as_json:
        print(formats.dumps(found.description), end="")
        return
    d = found.description
    screen.out.print(Text(found.name, style="bold"), Text(f"- {found.summary}"))
    if d.get("use"):
        screen.out.print(f"for: {d['use']}", markup=False)
    screen.out.print(layers(d))
    for line in promises(d):
        screen.out.print(line, markup=False)
    screen.out.print(f"library: {found.library or 'not built'}", markup=False)


def layers(description: dict[str, Any]) -> Table:
    """One row a layer: a request falls down the table, a block rises."""
    table = Table(box=screen.LINES, title="a request falls, a block rises", title_justify="left", title_style="dim")
    for column in ("layer", "what it does", "policies and sizes", "progress from here down (hit / refill / grow)"):
        table.add_column(column, overflow="fold")
    for layer in description.get("layers", []):
        table.add_row(*(Text(cell) for cell in row(layer)))
    return table


def row(layer: dict[str, Any], indent: str = "") -> tuple[str, str, str, str]:
    settings = layer.get("policies", {}) | layer.get("parameters", {})
    said = "\n".join(f"{key} = {value}" for key, value in settings.items())
    return indent + str(layer.get("name", "?")), str(layer.get("what", "")), said, steps(layer.get("progress", {}))


def steps(progress: dict[str, str]) -> str:
    return " / ".join(str(progress[step]).replace("_", "-") for step in ("hit", "refill", "grow") if step in progress)


def promises(description: dict[str, Any]) -> list[str]:
    lines = [f"progress of the whole: {steps(description.get('progress', {}))}"]
    if "thread_bytes" in description:
        lines.append(f"one thread's record: {description['thread_bytes']} bytes")
    budget = description.get("budget", {})
    if any(budget.values()):
        lines.append(
            "instructions of a hit, the budget that tests hold it to: "
            + ", ".join(f"{what} at most {count}" for what, count in budget.items())
        )
    return lines
