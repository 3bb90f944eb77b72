"""`mortise affinity`: the program on affinity pools, and afterwards what was found: chains, nodes, pools, the graph."""

import os
import platform
import sys
from enum import Enum
from pathlib import Path

import typer

from mortise import affinity_plans, arms, catalogue, chains, conf, doctor, elf, formats, shape, shape_page, starting
from mortise.errors import CannotWork, WrongUse


DRAWN = (".html", ".dot", ".json")
SAMPLES_PER_SECOND = "997"  # of CPU time; a prime, so that no loop of the program keeps step


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
    profile: bool = typer.Option(
        False, "--profile", help="Sample memory accesses: contexts hardly ever visited share their size class's pool in the plan."
    ),
    as_json: Path = typer.Option(None, "--json", metavar="FILE", help="What was found, as JSON."),
    settings: str = typer.Option("", "--conf", help="More settings, KEY=VALUE[,KEY=VALUE]..."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Run, and say nothing of what was found."),
) -> None:
    """Run a program on affinity pools and show what was found.

    Exit status: the program's own, 128+signal if one ended it; 3 where it left nothing to show.
    """
    if platform.machine() != "x86_64":
        raise CannotWork(f"this machine is {platform.machine()}: affinity pools read x86-64 code, with glibc")
    path = elf.resolve(program[0])
    if alloc not in (pooling := {a.name for a in catalogue.allocators() if a.name.endswith("+affinity")}):
        raise WrongUse(f"'{alloc}' has no affinity pools: expected one of {', '.join(sorted(pooling)) or 'none built'}")
    doctor.diagnose(program[0], deep=False).demand()
    for report in (graph, as_json, plan):
        formats.check_writable(report)
    if graph is not None and graph.suffix not in DRAWN:
        raise WrongUse(f"--graph '{graph}': expected a name that ends in {', '.join(DRAWN)}")
    if plan is not None and not conf.is_path(str(plan.absolute())):
        raise WrongUse(f"--plan '{plan}': expected a path of at most {conf.PATH_BYTES_MAX} characters from the root on")
    follows = plan is not None and plan.exists() and plan.stat().st_size > 0
    if follows:
        affinity_plans.read(plan)
    with starting.records() as folder:
        wanted = {"affinity_mode": "graph" if mode is Mode.overhead else mode.value}
        if mode is Mode.overhead:
            wanted["affinity_overhead"] = "1"
        if profile:
            wanted["affinity_profile"] = SAMPLES_PER_SECOND
        status, lost = run(path, program, str(catalogue.built(alloc)), wanted, settings, folder, plan if follows else None)
        found = chains.documents(folder)
    if lost and not found and not (quiet and as_json is graph is plan is None):
        raise CannotWork(lost, status or None)
    if lost:
        print(f"mortise: {lost}", file=sys.stderr)
    for one in found:
        chains.name_places(one)
    document = chains.assembled(program, mode.value, found)
    if not quiet:
        chains.show(document)
    if as_json:
        formats.write(as_json, formats.dumps(document))
    if graph:
        formats.write(graph, drawn(graph, document))
    if plan is not None:
        affinity_plans.update(plan, found)
    raise typer.Exit(status)


def run(
    path: Path, program: list[str], library: str, wanted: dict[str, str], settings: str, folder: Path, plan: Path | None
) -> tuple[int, str | None]:
    """The program's status, as a shell would say it, and why what was found in it is lost, if it is."""
    environment = dict(os.environ)
    environment["LD_PRELOAD"] = arms.preload(library)
    keys = conf.checked(settings) if settings else ""
    ours = ",".join(f"{key}={value}" for key, value in wanted.items())
    environment["MORTISE_CONF"] = conf.joined(environment.get("MORTISE_CONF"), ",".join(filter(None, [ours, keys])))
    environment["MORTISE_AFFINITY_DUMP"] = record = f"{folder}/dump.%p"  # names may have commas in them
    if plan is not None:
        environment["MORTISE_AFFINITY_PLAN"] = str(plan.absolute())
    process = starting.run(path, program, environment, record)
    lost = None
    if process.returncode < 0 or not starting.is_written(folder / f"dump.{process.pid}"):
        lost = f"'{program[0]}': {starting.why_no_record(process, folder)}, and what was found in it is lost"
    elif on := starting.heirs(folder):
        lost = f"'{program[0]}': {starting.went_on(on)}, and what is found there is lost"
    return starting.status_of(process), lost


def drawn(path: Path, document: dict) -> str:
    """The storage shape graph, in the format that the file's name asks for."""
    if path.suffix == ".json":
        return formats.dumps(document)
    if path.suffix == ".dot":
        return "".join(shape.dot(process) for process in document["processes"])
    return shape_page.render(document)
