"""`mortise path`: where an allocator's library lies, for Dockerfiles and unit files."""

import typer

from mortise import catalogue, peers
from mortise.errors import WrongUse


def command(name: str = typer.Argument(..., help="The allocator, as 'mortise list' shows it.")) -> None:
    """Print the path of an allocator's library.

    For example: LD_PRELOAD=$(mortise path hslab) ./server
    """
    if name == "glibc":
        raise WrongUse("'glibc' is the system's own and needs no library in front: leave LD_PRELOAD out, or name another allocator")
    peer = peers.named(name)
    print(catalogue.built(name) if peer is None else peer.library)
