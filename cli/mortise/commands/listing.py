"""`mortise list`: what ships, what it is for, and which allocators of others this machine has."""

import typer
from rich.table import Table

from mortise import catalogue, formats, peers, screen


def document() -> dict:
    ours = [
        {
            "name": a.name,
            "summary": a.summary,
            "use": a.description.get("use", ""),
            "progress": a.description.get("progress", {}),
            "library": str(a.library) if a.library else None,
        }
        for a in catalogue.allocators()
    ]
    theirs = [{"name": p.name, "library": str(p.library)} for p in peers.peers()]
    return {"schema": formats.LIST, "allocators": ours, "peers": theirs}


def command(as_json: bool = typer.Option(False, "--json", help="Print JSON (schema mortise.list/1).")) -> None:
    """List the allocators that ship, and the peers found on this machine."""
    if as_json:
        print(formats.dumps(document()), end="")
        return
    table = Table(box=screen.LINES, title="Allocators of mortise", title_justify="left")
    for name in ("name", "what it is", "progress", "library"):
        table.add_column(name, overflow="fold")
    for a in catalogue.allocators():
        table.add_row(a.name, a.summary, a.progress, str(a.library) if a.library else "not built")
    screen.out.print(table)
    found = Table(box=screen.LINES, title="Found on this machine (arms of 'mortise compare')", title_justify="left")
    for name in ("name", "library"):
        found.add_column(name, overflow="fold")
    found.add_row("glibc", "the system's own, always there")
    for p in peers.peers():
        found.add_row(p.name, str(p.library))
    screen.out.print(found)
