"""If one of these fails, a server that had much to do and now sleeps keeps memory that holds nothing."""

import os

import pytest

from programs.idle import MIB, SLEEPERS, Nap, naps
from programs.theatre import built

IDLE = ["hslab", "hslab_profiled", "hslabd", "hslab_hardened", "hslab+affinity"]  # whose promise it is (docs/4-life.md)
PAIRS = [(program, name) for turn, name in enumerate(IDLE) for at, program in enumerate(SLEEPERS)
         if turn == 0 or at % len(IDLE) == turn or "MORTISE_TEST_ALL" in os.environ]


@pytest.mark.parametrize("program, allocator", PAIRS)
def test_a_sleeping_program_keeps_the_pages_that_hold_a_block(program, allocator):
    for nap in naps(program, built(allocator)):
        assert nap.is_within, f"{nap.what}: {nap.left / MIB:.1f} MiB stay, {nap.live / MIB:.1f} are in pages with a block"


def test_what_stays_is_told():
    assert not Nap("thin", 100 * MIB, 20 * MIB, 30 * MIB, 1).is_within
    assert Nap("thin", 100 * MIB, 20 * MIB, 27 * MIB, 1).is_within
