"""`mortise layers`: what allocators can be made of, as the headers themselves say it."""

from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from mortise import formats, kit, screen
from mortise.errors import unknown
from mortise.headers import Catalogue

FAMILIES = {
    "source": "sources: the bottom of every stack",
    "backbone": "backbones: where a block lies",
    "cache": "caches: what is kept for later",
    "guard": "guards: what finds the program's mistakes",
    "shape": "shapes: what a block looks like",
    "route": "routes: which way a request takes",
    "watch": "watches: what is counted",
}


def command(
    name: str | None = typer.Argument(None, help="One layer or policy, in full."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON (schema mortise.layers/1)."),
    as_markdown: bool = typer.Option(False, "--markdown", help="Print the page docs/catalogue.md."),
) -> None:
    """Show the layers and policies that allocators can be made of, with their parameters.

    Compositions of them are built with 'mortise build'.
    """
    document = {"schema": formats.LAYERS} | Catalogue(kit.include()).document()
    if name is not None:
        entries = [e for e in document["layers"] + document["policies"] if e["name"] == name]
        if not entries:
            known = [e["name"] for e in document["layers"] + document["policies"]]
            raise unknown("layer or policy", name, known, "'mortise layers' shows them")
        document = {"schema": formats.LAYERS, "layers": [], "policies": []}
        for e in entries:
            document["policies" if "slot" in e else "layers"].append(e)
    if as_json:
        print(formats.dumps(document), end="")
    elif as_markdown:
        print(markdown(document), end="")
    else:
        show(document, in_full=name is not None)


def show(document: dict[str, Any], in_full: bool) -> None:
    for family, title in FAMILIES.items():
        members = [e for e in document["layers"] if e["family"] == family]
        if not members:
            continue
        table = Table(box=screen.LINES, title=title, title_justify="left")
        for column in ("layer", "does", "parameters", "needs below"):
            table.add_column(column, overflow="fold")
        for e in members:
            said = "\n".join(said_of(p) for p in e["parameters"])
            table.add_row(*(Text(cell) for cell in (e["name"], e["what"], said, e.get("needs", "nothing"))))
        screen.out.print(table)
    if document["policies"]:
        table = Table(box=screen.LINES, title="policies: one answer to a slot", title_justify="left")
        for column in ("slot", "policy", "is", "parameters"):
            table.add_column(column, overflow="fold")
        for e in document["policies"]:
            said = "\n".join(said_of(p) for p in e["parameters"])
            table.add_row(*(Text(cell) for cell in (e["slot"], e["name"], e.get("what", ""), said)))
        screen.out.print(table)
    if in_full:
        for e in document["layers"] + document["policies"]:
            screen.out.print(f"{e['name']}: {e['header']}", markup=False)
            for p in e["parameters"]:
                screen.out.print(f"  {said_of(p)}: {p.get('what', '')}", markup=False)
            for key, note in e["notes"].items():
                screen.out.print(f"  {key}: {note}", markup=False)


def said_of(p: dict[str, Any]) -> str:
    """`slots = 30 (4..1024)`."""
    default = f" = {p['default']}" if "default" in p else " (must be given)" if p["kind"] != "layers" else ""
    return p["name"] + default + (f" ({limits})" if (limits := allowed(p)) else "")


def allowed(p: dict[str, Any]) -> str:
    return {
        "integer": p.get("range", ""),
        "policy": ", ".join(p.get("answers", [])),
        "layers": "a list of layers",
        "boolean": "true or false",
    }[p["kind"]]


def markdown(document: dict[str, Any]) -> str:
    """The page docs/catalogue.md."""
    lines = [
        "# The catalogue: every layer and policy",
        "",
        "Generated from the headers by `mortise layers --markdown`; a test keeps it current. Names and parameters are",
        "those of a composition for `mortise build` ([layers](2-layers.md#your-own-allocator-without-c)).",
    ]
    for family, title in FAMILIES.items():
        members = [e for e in document["layers"] if e["family"] == family]
        if members:
            lines += ["", f"## {title[0].upper()}{title[1:]}"]
        for e in members:
            lines += ["", f"### {e['name']}", "", sentence(e["what"]), ""]
            lines += [f"- needs below: {e['needs']}"] if "needs" in e else []
            lines += [f"- {key.lower()}: {note}" for key, note in e["notes"].items()]
            lines += [f"- [{e['header'].split('/', 1)[1]}](../include/{e['header']})"]
            lines += rows(e)
    lines += ["", "## Policies: one answer to a slot"]
    for slot in dict.fromkeys(e["slot"] for e in document["policies"]):
        lines += ["", f"### {slot}"]
        for e in (e for e in document["policies"] if e["slot"] == slot):
            lines += ["", f"**{e['name']}** ([{e['header'].split('/', 1)[1]}](../include/{e['header']})): "
                      f"{e.get('what', '')}"] + rows(e)
    return "\n".join(lines) + "\n"


def rows(e: dict[str, Any]) -> list[str]:
    if not e["parameters"]:
        return []
    lines = ["", "| parameter | default | may be | means |", "|---|---|---|---|"]
    for p in e["parameters"]:
        default = f"`{p['default']}`" if "default" in p else "must be given"
        lines.append(f"| `{p['name']}` | {default} | {allowed(p)} | {p.get('what', '')} |")
    return lines


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
