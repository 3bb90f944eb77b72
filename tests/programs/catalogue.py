"""The list of programs, in the order in which they run: importing a module of definitions registers them."""

from programs import servers  # noqa: F401  isort: skip
from programs import languages  # noqa: F401  isort: skip
from programs import tools  # noqa: F401  isort: skip
from programs.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program"]
