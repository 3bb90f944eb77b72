"""`mortise run`: the program, on the chosen allocator. This process becomes the program, so its exit status is the
program's; if it ends on a fault, the places in its report are then printed by name.
"""

import os
import shutil
from pathlib import Path

import typer

from mortise import aftermath, arms, catalogue, conf, doctor, elf, peers, starting
from mortise.errors import CannotWork, WrongUse, unknown


def command(
    program: list[str] = typer.Argument(..., metavar="-- PROG [ARG]...", help="The program as you would start it."),
    alloc: str = typer.Option(
        "hslab", "--alloc", "-a", help="An allocator that 'mortise list' shows, a path to a .so, or a composition (.toml)."
    ),
    settings: str = typer.Option(
        "", "--conf", help="Settings, KEY=VALUE[,KEY=VALUE]...; they end up in MORTISE_CONF."
    ),
    only_self: bool = typer.Option(False, "--only-self", help="Serve this program only, not the ones it starts."),
    force: bool = typer.Option(False, "--force", help="Run even where preflight says that it cannot work."),
) -> None:
    """Run a program on an allocator. Exit status: the program's own, 128+signal if one ended it."""
    demand_no_allocator(program[0])
    path = elf.resolve(program[0])
    library = resolve(alloc)
    found = doctor.diagnose(program[0], deep=False)
    if not force:
        found.demand()
        demand_one_machine(library, found)
    environment = dict(os.environ)
    if library is not None:
        environment["LD_PRELOAD"] = arms.preload(library)
    if settings:
        environment["MORTISE_CONF"] = conf.joined(environment.get("MORTISE_CONF"), conf.checked(settings))
    if only_self:
        environment["MORTISE_ONLY_SELF"] = "1"
    if arms.is_ours(library):
        aftermath.watch(environment)
    starting.become(path, program, environment)


def demand_no_allocator(program: str) -> None:
    """Who writes 'mortise run hslab ./prog' means the allocator, unless there is a program of that name."""
    if "/" not in program and shutil.which(program) is None and program in names():
        raise WrongUse(f"no program '{program}' on PATH, and an allocator is named by --alloc: expected --alloc {program} -- PROG [ARG]...")


def demand_one_machine(library: str | None, found: doctor.Diagnosis) -> None:
    """The loader passes over a library for another machine, and the program would run on glibc."""
    if library is not None and not elf.same_machine(elf.image(Path(library)), elf.image(found.runs)):
        built = elf.image(Path(library))
        raise CannotWork(
            f"'{library}' is built for another machine ({built.machine}, {built.bits} bits) than '{found.runs}': "
            "the loader would pass it over; expected a library for the program's machine"
        )


def names() -> set[str]:
    """What --alloc knows by name."""
    return {a.name for a in catalogue.allocators()} | {p.name for p in peers.peers()} | {arms.GLIBC}


def resolve(alloc: str) -> str | None:
    """The library to preload; None for glibc, which needs none."""
    if alloc == arms.GLIBC:
        return None
    if alloc.endswith(".toml"):
        from mortise import building  # here: to compile takes as many modules as all else

        return str(building.cached(Path(alloc)))
    if arms.is_path(alloc):
        return arms.library(alloc)
    ours = {a.name for a in catalogue.allocators()}
    if alloc in ours:
        return str(catalogue.built(alloc))
    peer = peers.named(alloc)
    if peer is not None:
        return str(peer.library)
    known = names()
    base, colon, setting = alloc.partition(":")
    if colon and base in known:
        how = f"--alloc {base} --conf {setting}" if base in ours else f"--alloc {base}, and {setting} in the environment"
        raise WrongUse(f"--alloc '{alloc}': settings stand beside the allocator here, expected {how}")
    if alloc == "--":
        raise WrongUse("--alloc names no allocator before '--': expected for example --alloc hslab -- PROG; 'mortise list' shows them")
    raise unknown("allocator", alloc, known, "'mortise list' shows them")
