"""`mortise threads --watch`: runs the program watched; shows the findings as a table, JSON and a page."""

import subprocess
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mortise import formats, screen, starting, symbols
from mortise.errors import RunFailed

SHARE_MIN = 0.01  # a line with a smaller share of all rounds is chance
ROUNDS_MANY = 10  # from so many rounds on, a line that was met in one only is chance, too
LINE_BYTES = 64


def run(path: Path, program: list[str], environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """The program's status, as a shell would say it, and what was found."""
    with starting.records() as folder:
        findings = folder / "findings.json"
        process = starting.run(path, program, environment | {"MORTISE_THREADS_WATCH": str(findings)}, str(findings))
        status = starting.status_of(process)
        if not starting.is_written(findings):
            why = starting.killed(process) or "the program made no second thread, or said above why not"
            raise RunFailed(f"nothing was watched: {why}", status or 1)
        return status, told(formats.load(findings, formats.THREADS), {program[0]: str(path)})


def told(raw: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """The findings with shares, places in the source, names of variables, and nothing below the threshold. `files`: the program by the
    word that started it, which is how the loader calls it.
    """
    total = sum(line["rounds"] for line in raw["lines"])
    least = 2 if raw["rounds"] >= ROUNDS_MANY else 1
    lines = []
    for line in sorted(raw["lines"], key=lambda one: -one["rounds"]):
        share = line["rounds"] / total
        if share < SHARE_MIN or line["rounds"] < least:
            continue
        line["share"] = round(share, 4)
        place = line["object"]["allocated_at"] if line["object"] else line["global"]
        if place:
            place["module"] = files.get(place["module"], place["module"])
        if place and line["object"]:
            place["source"] = source_of(place)
        elif place:
            place["symbol"] = variables_in(line) or symbols.as_written([place["symbol"]])[0]
        lines.append(line)
    return raw | {"lines": lines}


def source_of(place: dict[str, Any]) -> str | None:
    """file:line of a return address, where the module has debugging information and binutils is at hand."""
    try:
        done = subprocess.run(
            ["addr2line", "-e", place["module"], hex(place["offset"] - 1)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = done.stdout.strip().split(" (")[0]
    return found if found and not found.startswith("??") and not found.endswith(":?") else None


def variables_in(line: dict[str, Any]) -> str:
    """The variables whose bytes the threads change, as they lie. The line's place is that of the first byte that is changed; modules begin
    at pages.
    """
    at = line["global"]["offset"] & -LINE_BYTES
    changed = [(at + w["first_byte"], at + w["last_byte"]) for w in line["writers"]]
    known = sorted(symbols.variables(line["global"]["module"]))
    return ", ".join(dict.fromkeys(name for first, last, name in known if any(first <= b and a <= last for a, b in changed)))


def what(line: dict[str, Any]) -> str:
    """The object of a line, in words."""
    if line["object"]:
        place = line["object"]["allocated_at"]
        if not place:
            return f"block of {line['object']['bytes']} bytes"
        where = place.get("source") or f"{Path(place['module']).name}+{place['offset']:#x}"
        return f"block of {line['object']['bytes']} bytes allocated at {where}"
    if line["global"]:
        module = Path(line["global"]["module"]).name
        return f"{line['global']['symbol'] or hex(line['global']['offset'])} in {module}"
    return f"memory at {line['address']:#x}"


def writers(line: dict[str, Any]) -> str:
    return "; ".join(f"thread {w['thread']}: bytes {w['first_byte']}-{w['last_byte']}" for w in line["writers"])


def show(findings: dict[str, Any]) -> None:
    """The table, on stderr: lines that threads fight over, then what each asked of the address space and waited for."""
    lines = Table(box=screen.LINES, title="cache lines that two or more threads change", title_justify="left")
    for column in ("share", "sharing", "what", "who changes which bytes"):
        lines.add_column(column, overflow="fold")
    for line in findings["lines"]:
        lines.add_row(f"{line['share']:.0%}", line["sharing"], Text(what(line)), Text(writers(line)))
    if findings["lines"]:
        screen.beside.print(lines)
    else:
        screen.beside.print(f"no cache line is changed by two threads ({findings['rounds']} rounds of watching)")
    threads = Table(box=screen.LINES, title="address space and locks, by thread", title_justify="left")
    for column in ("thread", "mmap", "munmap", "mprotect", "madvise", "lock waits", "waited (ms)"):
        threads.add_column(column, justify="right")
    for t in findings["threads"]:
        threads.add_row(
            "main" if t["thread"] == 0 else str(t["thread"]),
            str(t["mmap"]),
            str(t["munmap"]),
            str(t["mprotect"]),
            str(t["madvise"]),
            str(t["lock_waits"]),
            f"{t['lock_wait_ns'] / 1e6:.1f}",
        )
    screen.beside.print(threads)


def page(program: list[str], findings: dict[str, Any]) -> str:
    """A heat map, one row a cache line and one cell a byte; everything inside, nothing fetched."""
    rows = "".join(row(line) for line in findings["lines"]) or "<tr><td>no line is changed by two threads</td></tr>"
    return f"""<!doctype html>
<meta charset="utf-8"><title>mortise threads: {escape(" ".join(program))}</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; overflow-wrap: anywhere; }} table {{ border-collapse: collapse; }}
td, th {{ padding: 0 .3em; text-align: left; }}
.b {{ min-width: 4px; height: 16px; padding: 0; border: 1px solid #eee; }} .w {{ min-width: 9em; }}
</style>
<h1>Cache lines that two or more threads change</h1>
<p>{escape(" ".join(program))}: {findings["rounds"]} rounds. A cell is a byte of a line; its colour is the thread that
changes it, black where several do.</p>
<table><tr><th>share</th><th>sharing</th><th colspan="{LINE_BYTES}">bytes 0-63</th><th>what</th><th>who</th></tr>
{rows}</table>
"""


def row(line: dict[str, Any]) -> str:
    cells = []
    for byte in range(LINE_BYTES):
        here = [w["thread"] for w in line["writers"] if w["first_byte"] <= byte <= w["last_byte"]]
        shade = "#fff" if not here else "#000" if len(here) > 1 else f"hsl({here[0] * 67 % 360} 70% 55%)"
        who = ", ".join(f"thread {t}" for t in here)
        cells.append(f'<td class="b" style="background:{shade}" title="byte {byte}: {who or "nobody"}"></td>')
    return (
        f"<tr><td>{line['share']:.0%}</td><td>{line['sharing']}</td>{''.join(cells)}"
        f'<td class="w">{escape(what(line))}</td><td class="w">{escape(writers(line))}</td></tr>\n'
    )
