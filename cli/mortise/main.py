"""The `mortise` command: gathers one module a command, and turns everything that goes wrong into one line."""

import errno
import importlib
import io
import os
import re
import signal
import sys
from collections.abc import Iterable
from typing import Any

import typer

from mortise import __version__, older, stopping
from mortise.errors import WRONG_USE, Refusal

NO_FOLDER = "No usable temporary directory found"
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
OTHER_WORDS = {"isolate": "threads", "bench": "compare", "benchmark": "compare"}  # what people try: no spelling is near
PASS_ON = {"allow_interspersed_args": False}  # what follows the program belongs to it
COMMANDS = {  # in the order of --help: the module of mortise.commands, what is called there, and its settings
    "compare": ("compare", "command", PASS_ON),
    "run": ("run", "command", PASS_ON),
    "doctor": ("doctor", "command", PASS_ON),
    "latency": ("latency", "command", PASS_ON),
    "affinity": ("affinity", "command", PASS_ON),
    "threads": ("threads", "command", PASS_ON),
    "list": ("listing", "command", None),
    "explain": ("explain", "command", None),
    "profile": ("profile", "command", PASS_ON),
    "stats": ("stats", "command", None),
    "path": ("path", "command", None),
    "layers": ("layers", "command", None),
    "build": ("build", "command", None),
    "plan": ("plan", "plan", PASS_ON),
    "cell": ("plan", "cell", None),
    "report": ("plan", "report", None),
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mortise {__version__}")
        raise typer.Exit(0)


def options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Compare memory allocators on a program, honestly, and run it on the one it should have."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(WRONG_USE)


def gathered(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands. To import all of them takes twice as long as to import one."""
    app = older.Typer(
        name="mortise",
        context_settings={"help_option_names": ["--help", "-h"]},
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Which memory allocator should a program run on? Compare them on it, honestly, and run it there.",
    )
    app.callback(invoke_without_command=True)(options)
    for name in names:
        module, function, settings = COMMANDS[name]
        command = getattr(importlib.import_module(f"mortise.commands.{module}"), function)
        app.command(name, context_settings=settings)(command)
    return app


def needed(first: list[str]) -> Iterable[str]:
    """The commands to import: the one that is named, any for a question that none has to answer, all where they are to be shown."""
    return first if set(first) & set(COMMANDS) else ["path"] if first == ["--version"] else COMMANDS


def start() -> None:
    """The entry point. A broken pipe ends quietly, an interruption as a shell expects it, a refusal with its own
    status, a full disk with a line.
    """
    stopping.heed()
    if sys.stdout is not None:  # names of files may hold what is no text, and a terminal may lack our letters
        sys.stdout = buffered(sys.stdout)
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app = gathered(needed(sys.argv[1:2]))
        status = app(standalone_mode=False, prog_name="mortise")
        sys.stdout.flush()
    except Refusal as refusal:
        say(str(refusal))
        status = refusal.status
    except (typer.Abort, KeyboardInterrupt):
        say("interrupted")
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        drop_output()
        status = 128 + signal.SIGPIPE
    except SystemExit as e:  # what the option parser and rich make of a pipe that nobody reads any more
        if not isinstance(e.__context__, BrokenPipeError):
            raise
        drop_output()
        status = 128 + signal.SIGPIPE
    except OSError as e:
        line = of_writing(e)
        if line is None:
            raise
        drop_output()
        say(line)
        status = WRONG_USE
    except Exception as e:
        if not hasattr(e, "format_message"):
            raise
        say(complaint(e))
        status = WRONG_USE
    sys.exit(stopping.status(status) if isinstance(status, int) else 0)


def buffered(out: Any) -> Any:
    """Where Python is told not to buffer (PYTHONUNBUFFERED), it drops without a word what a full disk does not take of a write."""
    if not isinstance(getattr(out, "buffer", None), io.RawIOBase):
        return out
    return io.TextIOWrapper(io.BufferedWriter(out.buffer), encoding=out.encoding, line_buffering=out.isatty())


def of_writing(error: OSError) -> str | None:
    """What could not be written, in a line; None of all else. Of folders for temporary files tempfile has then tried several."""
    if str(error.strerror or error).startswith(NO_FOLDER):
        tried = str(error.strerror or error).removeprefix(NO_FOLDER)
        return f"no folder for temporary files{tried}: expected one that can be written and has room; name it in TMPDIR"
    if error.errno not in UNWRITABLE:
        return None
    what = f"'{error.filename}'" if error.filename else "standard output"
    return f"cannot write {what}: {error.strerror}; expected a place that can be written and has room"


def drop_output() -> None:
    """What is still to be written goes nowhere, so that the end does not fail on it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(line: str) -> None:
    print(f"mortise: {' '.join(line.split())}", file=sys.stderr)


def complaint(error: Exception) -> str:
    """What the option parser says, as one line that ends with what to do."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "mortise"
    said = of_number(error) or error.format_message().rstrip(".")  # type: ignore[attr-defined]
    named = re.fullmatch("No such command '(.*)'", said)
    if named and named[1] in OTHER_WORDS:
        said += f". Did you mean '{OTHER_WORDS[named[1]]}'?"
    return f"{said or 'a command is missing'}: '{where} --help' shows what is expected"


def of_number(error: Exception) -> str | None:
    """What is wrong with a number, in this project's words; None of all else."""
    param, said = getattr(error, "param", None), str(getattr(error, "message", ""))
    value, expected = "", ""
    if none := re.fullmatch(r"(.*) is not a valid int(?:eger)?(?: range)?\.?", said, re.DOTALL):
        value = none[1].strip("'")
        expected = "a whole number of fewer digits" if value.isdecimal() else "a whole number"
    if beyond := re.fullmatch(r"(-?\d+) is not in the range (?:(-?\d+)<=)?x(?:>=(-?\d+))?(?:<=(-?\d+))?\.?", said):
        value, least, most = beyond[1], beyond[2] or beyond[3], beyond[4]
        is_below = least is not None and int(value) < int(least)
        expected = f"a whole number not below {least}" if is_below else f"a whole number not above {most}"
    if not expected or param is None:
        return None
    name = param.opts[0] if param.opts[0].startswith("-") else param.opts[0].upper()
    return f"{name} '{value[:40]}': expected {expected}"
