"""From a measured document to everything that is shown of it: the terminal, and the files that were asked for."""

from pathlib import Path
from typing import Any

from mortise import formats
from mortise.errors import WrongUse

STDOUT = Path("-")


def check(outputs: dict[str, Path | None]) -> None:
    """Refuses before the measuring, not after it, what cannot be written."""
    given = [path.resolve() for path in outputs.values() if path is not None]
    if twice := next((path for path in given if given.count(path) > 1), None):
        raise WrongUse(f"two reports would go to '{twice.name}', where the second ends the first: give each its own file")
    for path in outputs.values():
        formats.check_writable(None if path == STDOUT else path)


def report(document: dict[str, Any], outputs: dict[str, Path | None]) -> int:
    """Shows the document and returns the exit status that its conclusion has."""
    from mortise import analysis, page, table

    document = analysis.conclude(document)
    if STDOUT not in outputs.values():
        table.show(document)
    for kind, render in (("json", formats.dumps), ("markdown", table.markdown), ("html", page.render)):
        path = outputs[kind]
        if path == STDOUT:
            formats.put_out(render(document))
        elif path is not None:
            formats.write(path, render(document))
    return int(document["conclusion"]["exit_status"])
