"""`mortise profile`: which call stacks hold a program's memory. Runs the program on the allocator that samples, or reads one
that runs on it already, or compares two profiles.
"""

import os
import sys
from pathlib import Path

import typer
from rich.table import Table

from mortise import arms, catalogue, conf, doctor, elf, flame, formats, heap_profile, inspecting, screen, starting
from mortise.errors import CannotWork, WrongUse

ALLOCATOR = "hslab_profiled"


def command(
    program: list[str] | None = typer.Argument(None, metavar="-- PROG [ARG]...", help="The program to run."),
    pid: int | None = typer.Option(None, "--pid", help=f"Read a process that runs on {ALLOCATOR} already."),
    base: Path | None = typer.Option(None, "--base", help="An earlier profile: show what grew since."),
    profile_file: Path | None = typer.Option(None, "--read", help="Show a profile that was written before: .pb.gz, or the library's text."),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the profile for pprof (gzipped profile.proto)."),
    html: Path | None = typer.Option(None, "--html", help="Write a flame graph as one HTML file."),
    leaks: bool = typer.Option(False, "--leaks", help="Remember every allocation; exact, for tests. Costs time."),
    sample: str = typer.Option("512K", "--sample", help="From one sample to the next, on average, in bytes."),
    top: int = typer.Option(20, "--top", min=1, help="How many places to print."),
    depth: int = typer.Option(4, "--depth", min=1, help="How many callers tell one place from another."),
) -> None:
    """Which call stacks hold memory.

    Exit status: the program's own, 128+signal if one ended it; 3 where it left nothing to show.
    """
    if sum((bool(program), pid is not None, profile_file is not None)) != 1:
        raise WrongUse("expected one of: -- PROG [ARG]..., --pid PID, --read FILE")
    for path in (out, html):
        formats.check_writable(path)
    status = 0
    if profile_file is not None:
        found = heap_profile.read(profile_file)
    elif pid is not None:
        found = of_process(pid)
    else:
        assert program is not None
        status, found = of_run(program, "1" if leaks else sample)
    if base is not None:
        found = found.minus(heap_profile.read(base))
    try:
        if out is not None:
            heap_profile.write_pprof(found, out)
        if html is not None:
            formats.write(html, flame.page(found, title(program, pid, profile_file, base)))
    finally:  # a file that cannot be written is no reason to lose what was found
        show(found, top, depth, "grown" if base is not None else "live at the end" if program else "live")
    raise typer.Exit(status)


def title(program: list[str] | None, pid: int | None, profile_file: Path | None, base: Path | None) -> str:
    of = " ".join(program) if program else f"process {pid}" if pid is not None else str(profile_file)
    return f"{of}, grown since {base}" if base is not None else of


def of_run(program: list[str], sample: str) -> tuple[int, heap_profile.Profile]:
    """Runs it to its end. The profile is of the program itself; processes that it starts write theirs beside it."""
    path = elf.resolve(program[0])
    doctor.diagnose(program[0], deep=False).demand()
    with starting.records() as folder:
        environment = dict(os.environ)
        environment["LD_PRELOAD"] = arms.preload(str(catalogue.built(ALLOCATOR)))
        conf.checked(f"sample_bytes={sample}")
        record = f"{folder}/%p.heap"  # a folder's name may have commas in it
        environment |= {"MORTISE_PROFILE": record, "MORTISE_SAMPLE_BYTES": sample}
        process = starting.run(path, program, environment, record)
        status = starting.status_of(process)
        written = folder / f"{process.pid}.heap"
        if not starting.is_written(written):
            how = starting.why_no_record(process, folder)
            line = f"'{program[0]}' wrote no profile: {how}; read it while it runs with 'mortise profile --pid'"
            raise CannotWork(line, status or None)
        return status, heap_profile.parse(written.read_text(errors="surrogateescape"))


def of_process(pid: int) -> heap_profile.Profile:
    return heap_profile.parse(
        inspecting.profile_text(pid), Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape"), Path(f"/proc/{pid}/root")
    )


def show(profile: heap_profile.Profile, top: int, depth: int, what: str) -> None:
    total = profile.total()
    how = "every allocation" if profile.period <= 1 else f"one sample in {formats.size(profile.period)}"
    print(
        f"{signed(total.inuse_space)} in {total.inuse_objects:.0f} blocks {what}, "
        f"{formats.size(total.alloc_space)} asked for ({how})"
    )
    if not profile.stacks and what != "grown" and profile.period > 1:
        print("mortise: nothing was sampled: of so little memory each block has to be remembered (--leaks, or a smaller --sample)", file=sys.stderr)
    if profile.dropped:
        print(f"mortise: warning: {profile.dropped} samples are missing: the system refused memory for them", file=sys.stderr)
    sites = sorted(profile.by_site(depth).items(), key=lambda item: -abs(item[1].inuse_space))
    table = Table(box=screen.LINES)
    for name in (what, "blocks", "share", "asked for"):
        table.add_column(name, justify="right")
    table.add_column("place < its callers", overflow="fold")
    for site, counts in sites[:top]:
        if not counts.inuse_objects and not counts.alloc_objects:
            continue
        share = counts.inuse_space / total.inuse_space if total.inuse_space > 0 else 0.0
        row = (signed(counts.inuse_space), f"{counts.inuse_objects:.0f}", formats.percent(share))
        table.add_row(*row, signed(counts.alloc_space), " < ".join(map(str, site)))
    screen.out.print(table)
    if len(sites) > top:
        print(f"and {len(sites) - top} more places; --top shows them", file=sys.stderr)


def signed(value: float) -> str:
    return f"-{formats.size(-value)}" if value < 0 else formats.size(value)
