"""`mortise threads`: the program with one address space per thread. This process becomes the program, so its exit
status is the program's; with --watch it stays behind, to show what was found.
"""

import os
import platform
from pathlib import Path

import typer

from mortise import arms, doctor, elf, formats, home, starting, watching
from mortise.commands.run import resolve
from mortise.errors import Refusal, WrongUse

UNSUPPORTED = 78
INSTEAD = {
    "static": "is statically linked: cannot isolate threads; link it dynamically",
    "machine": "built for another machine: isolated threads need x86-64 with glibc",
    "musl": "linked with musl: isolated threads need glibc",
    "sanitizer": "is built with a sanitizer, whose runtime has to be the first: cannot isolate threads; build it without",
}


class CannotIsolate(Refusal):
    """Preflight says that threads of this program cannot live apart."""

    status = UNSUPPORTED


def command(
    context: typer.Context,
    program: list[str] = typer.Argument(..., metavar="-- PROG [ARG]...", help="The program as you would start it."),
    alloc: str = typer.Option(
        arms.GLIBC, "--alloc", "-a", help="The allocator: a name that 'mortise list' shows, or a path to a .so."
    ),
    trap_futex: bool = typer.Option(
        False, "--trap-futex", help="Catch futex calls compiled into the program (OpenMP's libgomp makes such)."
    ),
    max_threads: int = typer.Option(1024, "--max", min=2, max=1024, help="How many threads may live at once."),
    watch: bool = typer.Option(
        False, "--watch", help="Find the cache lines that threads fight over; costs time while the program runs."
    ),
    as_json: Path = typer.Option(None, "--json", metavar="FILE", help="With --watch: the findings as JSON."),
    html: Path = typer.Option(None, "--html", metavar="FILE", help="With --watch: a heat map of the lines."),
    anyway: bool = typer.Option(False, "--anyway", help="Go on where the runtime would refuse, at your own risk."),
) -> None:
    """Run a program with one address space per thread. Exit status: the program's own; 78 if that cannot work."""
    if platform.machine() != "x86_64":
        raise CannotIsolate(f"this machine is {platform.machine()}: isolated threads need x86-64 with glibc")
    path = elf.resolve(program[0])
    check(program[0])
    if (as_json or html) and not watch:
        raise WrongUse("--json and --html hold what --watch finds: add --watch")
    for report in (as_json, html):
        formats.check_writable(report)
    environment = dict(os.environ)
    environment["LD_PRELOAD"] = arms.preload(*libraries(alloc, watch))
    source = context.get_parameter_source("max_threads")
    if "MORTISE_THREADS_MAX" not in environment or (source and source.name == "COMMANDLINE"):
        environment["MORTISE_THREADS_MAX"] = str(max_threads)
    if trap_futex:
        environment["MORTISE_THREADS_TRAP"] = "1"
    if anyway:
        environment["MORTISE_THREADS_ANYWAY"] = "1"
    if not watch:
        starting.become(path, program, environment)
    status, findings = watching.run(path, program, environment)
    watching.show(findings)
    if as_json:
        formats.write(as_json, formats.dumps(findings))
    if html:
        formats.write(html, watching.page(program, findings))
    raise typer.Exit(status)


def libraries(alloc: str, watch: bool) -> list[str]:
    """What is preloaded: the runtime, for --watch the record of allocation sites, and the allocator."""
    wanted = ["isolate", "isolate-sites"] if watch else ["isolate"]
    found = []
    for name in wanted:
        library = home.library(name)
        if library is None:
            raise WrongUse(
                f"libmortise-{name}.so is missing (looked in {home.looked()}): run 'make build', or set MORTISE_HOME"
            )
        found.append(str(library))
    allocator = resolve(alloc)
    return found if allocator is None else [*found, allocator]


def check(program: str) -> None:
    """What the loader would make the runtime never see is refused here."""
    found = doctor.diagnose(program, deep=False)
    for finding in found.findings:
        if finding.code in INSTEAD:
            raise CannotIsolate(f"'{found.program}' {INSTEAD[finding.code]}")
        if finding.code in ("set-id", "capabilities"):
            raise CannotIsolate(f"'{found.program}' {finding.text.split(';')[0]}: cannot isolate threads")
