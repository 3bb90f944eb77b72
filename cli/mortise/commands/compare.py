"""`mortise compare`: which allocator, honestly, on the user's own program."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mortise import formats, gates, reporting
from mortise.commands import options
from mortise.errors import WrongUse

Replay = Annotated[Path | None, typer.Option("--replay", help="Run nothing: report again from such a JSON file; a --fail-if holds for it.")]
REPORTING = ("program", "replay", "fail_if", "json_path", "html_path", "markdown")  # what means something without a run


def command(
    context: typer.Context,
    program: options.Program = None,
    arm_list: options.Arms = None,
    time: options.Time = "cpu",
    mem: options.Mem = "peak",
    metric_regex: options.MetricRegex = None,
    metric_less: options.MetricLess = False,
    resolve: options.Resolve = "2%",
    budget: options.Budget = None,
    rounds: options.Rounds = 200,
    warmup: options.Warmup = 1,
    repeat_inside: options.RepeatInside = 1,
    sweep: options.SweepTexts = None,
    fail_if: options.FailIf = None,
    check: options.Check = "stdout",
    stdin: options.Stdin = None,
    ready: options.Ready = None,
    load: options.Load = None,
    stop: options.Stop = None,
    timeout: options.Timeout = "1h",
    seed: options.Seed = None,
    profile: options.Profile = None,
    latency: options.Latency = None,
    json_path: options.Json = None,
    html_path: options.Html = None,
    markdown: options.Markdown = None,
    replay: Replay = None,
) -> None:
    """Compare allocators on a program: time, memory, and how sure that is.

    Exit status: 0 a verdict was reached, 1 a run failed or outputs differ, 2 wrong use, 3 can't tell or it cannot
    work, 4 a --fail-if was hit.
    """
    given = locals()
    outputs = {"json": json_path, "html": html_path, "markdown": markdown}
    reporting.check(outputs)
    if replay is not None:
        demand_reporting_only(context, program)
        raise typer.Exit(again(replay, fail_if, outputs))
    if not program:
        raise WrongUse("no program to compare on: expected 'mortise compare [OPTION]... -- PROG [ARG]...'")
    settings = options.settings(given)
    from mortise import comparing

    raise typer.Exit(reporting.report(comparing.measure(program, comparing.specs_of(arm_list), settings), outputs))


def demand_reporting_only(context: typer.Context, program: list[str] | None) -> None:
    """Refuses what only a run could heed: a report that silently leaves it out would be taken for one that holds it."""
    if program:
        raise WrongUse("--replay reports from its file and runs nothing: leave out the program, or --replay")
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name not in REPORTING and source is not None and source.name == "COMMANDLINE":
            raise WrongUse(f"--replay reports from its file, as it was measured, and runs nothing: leave out {param.opts[0]}, or --replay")


def again(replay: Path, fail_if: list[str] | None, outputs: dict[str, Any]) -> int:
    """The report on a file; gates that are named now stand for those that it was measured with."""
    document = formats.load(replay, formats.COMPARE)
    with formats.whole(replay):
        for text in fail_if or []:
            gates.parse(text, list(document["arms"]))
        if fail_if:
            document["settings"]["fail_if"] = fail_if
        return reporting.report(document, outputs)
