"""`mortise doctor`: what a preloaded allocator will and will not do for a program, before anything runs."""

import typer

from mortise import doctor, formats, screen
from mortise.errors import CANNOT_TELL

MARKS = {
    doctor.BLOCKS: ("no ", "bold red"),
    doctor.WARNS: ("!  ", "yellow"),
    doctor.NOTES: ("-  ", ""),
    doctor.GOOD: ("ok ", "green"),
}


def command(
    program: list[str] = typer.Argument(..., metavar="-- PROG [ARG]...", help="The program as you would start it."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON (schema mortise.doctor/1)."),
) -> None:
    """Say whether a replacement allocator will work for a program, and what would be served.

    Exit status 0 when it will, 3 when it cannot.
    """
    found = doctor.diagnose(program[0])
    if as_json:
        print(formats.dumps(found.document()), end="")
    else:
        screen.out.print(
            f"{found.program}: as shipped, malloc comes from {found.as_shipped}", markup=False, highlight=False
        )
        for finding in found.findings:
            mark, style = MARKS[finding.weight]
            screen.out.print(mark, style=style, end="", markup=False)
            screen.out.print(finding.text, markup=False, highlight=False)
    if found.blocked is not None:
        raise typer.Exit(CANNOT_TELL)
