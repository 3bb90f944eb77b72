"""The options that say what to compare and how; `compare` and `plan` share them."""

import re
import secrets
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from mortise import formats
from mortise.errors import WrongUse


def _option(name: str, text: str, *more: str, **limits: Any) -> Any:
    return typer.Option(name, *more, help=text, **limits)


def _command(param: typer.CallbackParam, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise WrongUse(f"{param.opts[0]} '{value}' is empty: expected a command, or no {param.opts[0]}")
    return value


Program = Annotated[
    list[str] | None,
    typer.Argument(..., metavar="-- PROG [ARG]...", help="The program as you would start it; {tmp} is a fresh folder."),
]
Arms = Annotated[
    list[str] | None,
    _option(
        "--arms",
        "Arms, separated by commas; the first is the reference. "
        "NAME, NAME:KEY=VALUE, PATH.so, LABEL=env:KEY=VALUE, LABEL=cmd:PROGRAM.",
        "-a",
    ),
]
Time = Annotated[str, _option("--time", "What counts as time: cpu (user + system) or wall.")]
Mem = Annotated[str, _option("--mem", "What counts as memory: peak or avg, above the program's bare image; anon: the peak of what is no file's.")]
MetricRegex = Annotated[
    str | None, _option("--metric-regex", "Compare the number this finds in the output, not time.")
]
MetricLess = Annotated[bool, _option("--metric-less", "Of that number, less is better (default: more).")]
Resolve = Annotated[str, _option("--resolve", "Differences below this are of no interest.")]
Budget = Annotated[
    str | None,
    _option(
        "--budget",
        "How long to measure: no round begins that would not end within it (default: 5m, and less where it would decide nothing more). "
        "Whatever it is, each arm has its warm-up, one time round and one memory round; traces of --html come on top.",
    ),
]
Rounds = Annotated[int, _option("--rounds", "How many time rounds at most; memory rounds come on top.", min=1, metavar="N")]
Warmup = Annotated[int, _option("--warmup", "Rounds that are run and not counted.", min=0, metavar="N")]
RepeatInside = Annotated[
    int,
    _option(
        "--repeat-inside",
        "Time main so many times in each run, in copies of the loaded program: for programs of milliseconds, of which "
        "starting is most.",
        min=1,
        metavar="N",
    ),
]
SweepTexts = Annotated[
    list[str] | None,
    _option(
        "--sweep",
        "Turn a knob: [ARM:]VAR=text{VALUE,...}, [ARM:]@NAME={VALUE,...} for {NAME} in the arguments, or a "
        "preset: ocaml, go, java, node, jemalloc, mimalloc, tcmalloc, glibc, mortise.",
    ),
]
FailIf = Annotated[list[str] | None, _option("--fail-if", "End with status 4 if for example 'hslab slower 3%'.")]
Check = Annotated[str, _option("--check", "What must agree between arms: stdout (and exit status), exit, or what a command prints that reads the output.")]
Stdin = Annotated[Path | None, _option("--stdin", "A file that every run reads as its standard input.")]
Ready = Annotated[str | None, _option("--ready", "For a server: a command that succeeds once it can be used.", callback=_command)]
Load = Annotated[str | None, _option("--load", "For a server: the command that uses it; its time is the run's.", callback=_command)]
Stop = Annotated[str | None, _option("--stop", "For a server: the command that ends it (default: SIGTERM).", callback=_command)]
Timeout = Annotated[str, _option("--timeout", "One run that takes longer than this has failed.")]
Seed = Annotated[int | None, _option("--seed", "For the order of the rounds (default: drawn, and printed).")]
Profile = Annotated[
    bool | None,
    typer.Option(
        "--profile/--no-profile", help="Trace more runs: sizes, lifetimes, threads; system calls (default: with --html)."
    ),
]
Latency = Annotated[
    str | None,
    _option(
        "--latency",
        "Time single calls in one more run of each arm: off, sampled (one in 64; default with --html) or full.",
    ),
]
Json = Annotated[Path | None, _option("--json", "Write every run and conclusion (mortise.compare/1); '-' is stdout.")]
Html = Annotated[Path | None, _option("--html", "Write the report as one HTML file that needs no network.")]
Markdown = Annotated[Path | None, _option("--markdown", "Write the table as Markdown; '-' is stdout.")]


def choice(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise WrongUse(f"{option} '{value}': expected {' or '.join(allowed)}")
    return value


def settings(given: dict[str, Any]) -> Any:
    """What the options mean, or one line on which of them means nothing. Options that a command lacks keep defaults."""
    from mortise.session import Settings

    if given["stdin"] is not None and not given["stdin"].is_file():
        raise WrongUse(f"no file '{given['stdin']}' for --stdin")
    if given["metric_regex"] is not None:
        try:
            re.compile(given["metric_regex"])
        except (re.error, OverflowError, RecursionError) as e:
            raise WrongUse(f"--metric-regex '{given['metric_regex']}' is not a regular expression: {e}") from None
    return Settings(
        time=choice("--time", given["time"], ("cpu", "wall")),
        memory=choice("--mem", given["mem"], ("peak", "avg", "anon")),
        check=checked(given["check"]),
        resolve=formats.share(given["resolve"]),
        budget_s=formats.span(given.get("budget") or ("5m" if "budget" in given else "1h")),
        patient=given.get("budget") is not None,
        rounds_max=given["rounds"],
        warmup=given["warmup"],
        metric_regex=given["metric_regex"],
        metric_better="less" if given["metric_less"] else "more",
        seed=given["seed"] if given["seed"] is not None else secrets.randbelow(2**31),
        timeout_s=formats.span(given["timeout"]),
        stdin=given["stdin"],
        service=service(given),
        profile=bool(given.get("html_path") if given.get("profile") is None else given["profile"]),
        latency=latency_every(given.get("latency"), bool(given.get("html_path"))),
        fail_if=given.get("fail_if") or [],
        sweep_texts=given["sweep"] or [],
        repeat_inside=repeated(given),
    )


def checked(text: str) -> str:
    """stdout, exit, or a command that reads the output and prints what must agree."""
    words = text.split()
    if text not in ("stdout", "exit") and not (words and shutil.which(words[0])):
        raise WrongUse(f"--check '{text}': expected stdout, exit, or a command that reads the output, for example 'grep -v seconds'")
    return text


def repeated(given: dict[str, Any]) -> int:
    count = given.get("repeat_inside") or 1
    if count > 1 and given["load"]:
        raise WrongUse("--repeat-inside repeats a program that ends by itself: leave it out for a server, and let --load do more")
    return count


def latency_every(text: str | None, has_page: bool) -> int:
    if text is None:
        return 64 if has_page else 0
    return {"off": 0, "sampled": 64, "full": 1}[choice("--latency", text, ("off", "sampled", "full"))]


def service(given: dict[str, Any]) -> Any:
    from mortise.launching import Service

    if not (given["ready"] or given["load"] or given["stop"]):
        return None
    if not given["load"]:
        raise WrongUse("--ready and --stop describe a server: --load must say how to use it")
    return Service(given["ready"], given["load"], given["stop"])
