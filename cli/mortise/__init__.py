"""The command line of mortise: which allocator a program should run on, and running it there."""

__version__ = "0.1.0"

from mortise import standard

standard.open_closed()
