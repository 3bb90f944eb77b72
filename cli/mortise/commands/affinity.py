"""`mortise affinity`: the program on affinity pools, and afterwards what was found: chains, nodes, pools, the graph."""

import os
import platform
import subprocess
import tempfile
from enum import Enum
from pathlib import Path

import typer

from mortise import arms, catalogue, chains, conf, doctor, elf, formats
from mortise.errors import CannotWork, WrongUse


class Mode(str, Enum):
    """What a pool is chosen by."""

    size = "size"
    site = "site"
    chain = "chain"
    graph = "graph"
    overhead = "overhead"


def command(
    program: list[str] = typer.Argument(..., metavar="-- PROG [ARG]...", help="The program as you would start it."),
    mode: Mode = typer.Option(
        Mode.graph,
        "--mode",
        help="What pools are chosen by: size class (the control), call site, chain of calls, chain and storage shape graph; "
        "or overhead: everything is looked up, and objects come from the allocator below.",
    ),
    alloc: str = typer.Option("hslab+affinity", "--alloc", "-a", help="An allocator with affinity pools."),
    plan: Path = typer.Option(None, "--plan", metavar="FILE", help="Follow this plan, and bring it up to date afterwards."),
    graph: Path = typer.Option(None, "--graph", metavar="FILE", help="What was found, to look at: .html, .dot or .json."),
    as_json: Path = typer.Option(None, "--json", metavar="FILE", help="What was found, as JSON."),
    settings: str = typer.Option("", "--conf", help="More settings, KEY=VALUE[,KEY=VALUE]..."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Run, and say nothing of what was found."),
) -> None:
    """Run a program on affinity pools and show what was found. Exit status: the program's own, 128+signal if one ended it."""
    if platform.machine() != "x86_64":
        raise CannotWork(f"this machine is {platform.machine()}: affinity pools read x86-64 code, with glibc")
    path = elf.resolve(program[0])
    if alloc not in (pooling := {a.name for a in catalogue.allocators() if a.name.endswith("+affinity")}):
        raise WrongUse(f"'{alloc}' has no affinity pools: expected one of {', '.join(sorted(pooling)) or 'none built'}")
    doctor.diagnose(program[0], deep=False).demand()
    for report in (graph, as_json):
        formats.check_writable(report)
    with tempfile.TemporaryDirectory(prefix="mortise-") as name:
        folder = Path(name)
        wanted = {"affinity_mode": "graph" if mode is Mode.overhead else mode.value, "affinity_dump": f"{folder}/dump.%p"}
        if mode is Mode.overhead:
            wanted["affinity_overhead"] = "1"
        if plan is not None:
            wanted["affinity_plan"] = str(plan.absolute())
        status = run(path, program, str(catalogue.built(alloc)), wanted, settings)
        found = chains.documents(folder)
    for one in found:
        chains.name_places(one)
    document = chains.assembled(program, mode.value, found)
    if not quiet:
        chains.show(document)
    if as_json:
        formats.write(as_json, formats.dumps(document))
    if graph:
        draw(graph, document)
    raise typer.Exit(status)


def run(path: Path, program: list[str], library: str, wanted: dict[str, str], settings: str) -> int:
    """The program's status, as a shell would say it."""
    environment = dict(os.environ)
    environment["LD_PRELOAD"] = arms.preload(library)
    keys = conf.checked(settings) if settings else ""
    ours = ",".join(f"{key}={value}" for key, value in wanted.items())
    environment["MORTISE_CONF"] = conf.joined(environment.get("MORTISE_CONF"), ",".join(filter(None, [ours, keys])))
    try:
        done = subprocess.run(program, executable=path, env=environment, check=False)
    except OSError as e:
        raise WrongUse(f"cannot run '{path}': {e.strerror}") from None
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def draw(path: Path, document: dict) -> None:
    """The storage shape graph, in the format that the file's name asks for."""
    if path.suffix == ".json":
        return formats.write(path, formats.dumps(document))
    raise WrongUse(f"--graph '{path}': expected a name that ends in .json")
