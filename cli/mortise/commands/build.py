"""`mortise build`: an allocator of one's own, from a composition in TOML."""

from pathlib import Path

import typer

from mortise import building, screen
from mortise.errors import WrongUse


def command(
    spec: Path = typer.Argument(..., metavar="SPEC.toml", help="The composition: a name and a list of layers."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="What to make: F.so, to preload, or F.a, with the C header F.h beside it."
    ),
    compiler: str | None = typer.Option(None, "--compiler", help="Another C++20 compiler, for F.a of another machine too."),
    flag: list[str] = typer.Option([], "--flag", help="A flag more for the compiler, such as --flag=-Os."),
    freestanding: bool = typer.Option(False, "--freestanding", help="F.a for a machine without an operating system."),
) -> None:
    """Compile a composition of layers to a library. 'mortise layers' shows what there is to compose.

    The .so has the whole malloc interface: run, explain and compare take it. Without -o it is libmortise-NAME.so here.
    """
    if output is not None and output.suffix not in (".so", ".a"):
        raise WrongUse(f"-o '{output}': expected a name that ends in .so or .a")
    if freestanding and (output is None or output.suffix != ".a"):
        raise WrongUse("--freestanding makes a static library: name one that ends in .a with -o")
    if output is None:
        from mortise import composition, kit
        from mortise.headers import Catalogue

        output = Path(f"libmortise-{composition.read(spec, Catalogue(kit.include())).name}.so")
    made = building.build(spec, building.Wanted(output, compiler, flag, freestanding))
    beside = f" and {output.with_suffix('.h')}" if output.suffix == ".a" else ""
    screen.progress.print(f"{output}{beside}: {made.name}, {made.summary}", markup=False, soft_wrap=True)
