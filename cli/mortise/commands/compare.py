"""`mortise compare`: which allocator, honestly, on the user's own program."""

import os
import re
import secrets
from pathlib import Path
from typing import Any

import typer

from mortise import arms as arms_
from mortise import doctor, formats
from mortise.errors import WrongUse


def command(
    program: list[str] = typer.Argument(
        None, metavar="-- PROG [ARG]...", help="The program as you would start it; {tmp} is a fresh folder."
    ),
    arm_list: list[str] = typer.Option(
        [],
        "--arms",
        "-a",
        help="Arms, separated by commas; the first is the reference. "
        "NAME, NAME:KEY=VALUE, PATH.so, LABEL=env:KEY=VALUE, LABEL=cmd:PROGRAM.",
    ),
    time: str = typer.Option("cpu", "--time", help="What counts as time: cpu (user + system) or wall."),
    mem: str = typer.Option(
        "peak", "--mem", help="What counts as memory: peak or avg (over time), above the program's bare image."
    ),
    metric_regex: str = typer.Option(
        None, "--metric-regex", help="Compare the first number this finds in the output instead of time."
    ),
    metric_less: bool = typer.Option(False, "--metric-less", help="Of that number, less is better (default: more)."),
    resolve: str = typer.Option("2%", "--resolve", help="Differences below this are of no interest."),
    budget: str = typer.Option("5m", "--budget", help="How long to measure at most."),
    rounds: int = typer.Option(200, "--rounds", min=1, help="How many rounds at most."),
    warmup: int = typer.Option(1, "--warmup", min=0, help="Rounds that are run and not counted."),
    sweep: list[str] = typer.Option(
        [],
        "--sweep",
        help="Turn a knob: [ARM:]VARIABLE=text{VALUE,...}, [ARM:]@NAME={VALUE,...} for {NAME} in the arguments, or a "
        "preset: ocaml, go, java, node, jemalloc, mimalloc, tcmalloc, glibc, mortise.",
    ),
    fail_if: list[str] = typer.Option([], "--fail-if", help="End with status 4 if for example 'hslab slower 3%'."),
    check: str = typer.Option(
        "stdout", "--check", help="What must agree between arms: stdout (and exit status) or exit."
    ),
    stdin: Path = typer.Option(None, "--stdin", help="A file that every run reads as its standard input."),
    ready: str = typer.Option(None, "--ready", help="For a server: a command that succeeds once it can be used."),
    load: str = typer.Option(
        None, "--load", help="For a server: the command that uses it; its wall time is the run's."
    ),
    stop: str = typer.Option(None, "--stop", help="For a server: the command that ends it (default: SIGTERM)."),
    timeout: str = typer.Option("1h", "--timeout", help="One run that takes longer than this has failed."),
    seed: int = typer.Option(None, "--seed", help="For the order of the rounds (default: drawn, and printed)."),
    json_path: Path = typer.Option(
        None, "--json", help="Write every run and every conclusion (schema mortise.compare/1); '-' is stdout."
    ),
    html_path: Path = typer.Option(None, "--html", help="Write the report as one HTML file that needs no network."),
    markdown: Path = typer.Option(None, "--markdown", help="Write the table as Markdown; '-' is stdout."),
    replay: Path = typer.Option(None, "--replay", help="Run nothing: make the report again from such a JSON file."),
) -> None:
    """Compare allocators on a program: time, memory, and how sure that is.

    Exit status: 0 a verdict was reached, 1 a run failed or outputs differ, 2 wrong use, 3 can't tell or it cannot work.
    """
    outputs = {"json": json_path, "html": html_path, "markdown": markdown}
    for path in outputs.values():
        formats.check_writable(None if path == Path("-") else path)
    if replay is not None:
        document = formats.load(replay, formats.COMPARE)
    else:
        if not program:
            raise WrongUse("no program to compare on: expected 'mortise compare [OPTION]... -- PROG [ARG]...'")
        settings = _settings(time, mem, check, locals())
        document = _measure(program, arm_list, settings)
    raise typer.Exit(_report(document, outputs))


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise WrongUse(f"{option} '{value}': expected {' or '.join(allowed)}")
    return value


def _settings(time: str, mem: str, check: str, given: dict[str, Any]) -> Any:
    from mortise.launching import Service
    from mortise.session import Settings

    service = None
    if given["ready"] or given["load"] or given["stop"]:
        if not given["load"]:
            raise WrongUse("--ready and --stop describe a server: --load must say how to use it")
        service = Service(given["ready"], given["load"], given["stop"])
    if given["stdin"] is not None and not given["stdin"].is_file():
        raise WrongUse(f"no file '{given['stdin']}' for --stdin")
    if given["metric_regex"] is not None:
        try:
            re.compile(given["metric_regex"])
        except re.error as e:
            raise WrongUse(f"--metric-regex '{given['metric_regex']}' is not a regular expression: {e}") from None
    return Settings(
        time=_choice("--time", time, ("cpu", "wall")),
        memory=_choice("--mem", mem, ("peak", "avg")),
        check=_choice("--check", check, ("stdout", "exit")),
        resolve=formats.share(given["resolve"]),
        budget_s=formats.span(given["budget"]),
        rounds_max=given["rounds"],
        warmup=given["warmup"],
        metric_regex=given["metric_regex"],
        sweep_texts=given["sweep"],
        fail_if=given["fail_if"],
        metric_better="less" if given["metric_less"] else "more",
        seed=given["seed"] if given["seed"] is not None else secrets.randbelow(2**31),
        timeout_s=formats.span(given["timeout"]),
        stdin=given["stdin"],
        service=service,
    )


def _measure(program: list[str], arm_list: list[str], settings: Any) -> dict[str, Any]:
    from mortise import gates, sweeps
    from mortise.progress import Line
    from mortise.session import Session

    found = doctor.diagnose(program[0])
    specs = [spec for text in arm_list for spec in arms_.split(text)]
    arms = arms_.parse_all(specs, found.as_shipped)
    settings.sweeps = sweeps.parse_all(settings.sweep_texts, arms, program)
    for text in settings.fail_if:
        gates.parse(text, [arm.name for arm in arms])
    if len(arms) < 2 and not settings.sweeps:
        raise WrongUse("a comparison needs two arms or more (for example --arms glibc,hslab), or one and a --sweep")
    if any(arm.kind not in ("environment", "command", "shipped") for arm in arms[1:]) or arms[0].preloads:
        found.demand()
    with Line(settings.budget_s) as line:
        line.preflight(found, len(arms), settings)
        return Session(program, arms, settings, found.document(), line).run()


def _report(document: dict[str, Any], outputs: dict[str, Path | None]) -> int:
    from mortise import analysis, page, table

    document = analysis.conclude(document)
    to_stdout = [kind for kind, path in outputs.items() if path == Path("-")]
    if not to_stdout:
        table.show(document)
    for kind, render in (("json", formats.dumps), ("markdown", table.markdown), ("html", page.render)):
        path = outputs[kind]
        if path == Path("-"):
            os.write(1, render(document).encode())
        elif path is not None:
            formats.write(path, render(document))
    return int(document["conclusion"]["exit_status"])
