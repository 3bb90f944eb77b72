"""`mortise path`: where an allocator's library lies, for Dockerfiles and unit files."""

import typer

from mortise import catalogue


def command(name: str = typer.Argument(..., help="The allocator, as 'mortise list' shows it.")) -> None:
    """Print the path of an allocator's library.

    For example: LD_PRELOAD=$(mortise path hslab) ./server
    """
    print(catalogue.built(name))
