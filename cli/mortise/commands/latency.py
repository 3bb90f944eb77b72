"""`mortise latency`: how long single calls of malloc and free take, for any allocator under an unmodified program."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

from mortise import comparing, doctor, formats, screen
from mortise import arms as arms_
from mortise.commands import options
from mortise.errors import RUN_FAILED, WrongUse

STDOUT = Path("-")
Full = Annotated[bool, typer.Option("--full", help="Time every call, not one in 64: for the tail of the tail.")]
Every = Annotated[int, typer.Option("--every", metavar="N", min=1, help="Time one call in N, at random; fewer where calls are dense.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write everything (mortise.latency/1); '-' is stdout.")]


def command(
    program: options.Program = None,
    arm_list: options.Arms = None,
    full: Full = False,
    every: Every = 64,
    rounds: Annotated[int, typer.Option("--rounds", help="Runs of each arm; their calls are counted together.", min=1)] = 1,
    stdin: options.Stdin = None,
    ready: options.Ready = None,
    load: options.Load = None,
    stop: options.Stop = None,
    timeout: options.Timeout = "1h",
    seed: options.Seed = None,
    json_path: Json = None,
    html_path: options.Html = None,
) -> None:
    """Percentiles of malloc and free up to 99.9999 % and the worst, per arm, with the cause of the slowest calls.

    Exit status: 0 every arm was measured, 1 one failed or was ended by a signal, 2 wrong use, 3 it cannot work on this program.
    """
    if not program:
        raise WrongUse("no program to time: expected 'mortise latency [OPTION]... -- PROG [ARG]...'")
    if stdin is not None and not stdin.is_file():
        raise WrongUse(f"no file '{stdin}' for --stdin")
    for path in (json_path, html_path):
        formats.check_writable(None if path == STDOUT else path)
    service = options.service({"ready": ready, "load": load, "stop": stop})
    found = doctor.diagnose(program[0])
    found.demand()
    arms = arms_.parse_all(comparing.specs_of(arm_list), found.as_shipped)
    for finding in [] if stdin else doctor.waiting_input():
        say(f"{found.program.name} {finding.text}")
    from mortise import latency, latency_page, latency_table
    from mortise.launching import Request

    requests = [Request(program, arm, stdin=stdin, service=service, timeout_s=formats.span(timeout)) for arm in arms]
    number = secrets.randbelow(2**31) if seed is None else seed
    document = latency.measure(program, requests, 1 if full else every, rounds, number, say)
    if json_path != STDOUT:
        latency_table.show(document)
    for path, render in ((json_path, formats.dumps), (html_path, latency_page.render)):
        if path == STDOUT:
            formats.put_out(render(document))
        elif path is not None:
            formats.write(path, render(document))
    raise typer.Exit(RUN_FAILED if any(entry["failure"] or entry["killed_by"] for entry in document["arms"].values()) else 0)


def say(text: str) -> None:
    screen.progress.print(f"           {text}", markup=False, soft_wrap=True)
