"""If one of these fails, a server that had much to do and now sleeps keeps memory that holds nothing."""

import os

import pytest

from programs.idle import MIB, SLEEPERS, Nap, naps
from programs.theatre import built
from support.allocators import CARDS

# The general-purpose allocators, by their own card: those whose free memory goes back after a while.
IDLE = [name for name, card in CARDS.items() if any(layer["parameters"].get("purge_delay_ms", -1) > 0 for layer in card["layers"])]
PAIRS = [(program, name) for turn, name in enumerate(sorted(IDLE, key=lambda name: name != "hslab")) for at, program in enumerate(SLEEPERS)
         if turn == 0 or at % len(IDLE) == turn or "MORTISE_TEST_ALL" in os.environ]


@pytest.mark.parametrize("program, allocator", PAIRS)
def test_a_sleeping_program_keeps_the_pages_that_hold_a_block(program, allocator):
    for nap in naps(program, built(allocator)):
        assert nap.is_within, f"{nap.what}: {nap.left / MIB:.1f} MiB stay, {nap.live / MIB:.1f} are in pages with a block"


def test_what_stays_is_told():
    assert not Nap("thin", 100 * MIB, 20 * MIB, 30 * MIB, 1).is_within
    assert Nap("thin", 100 * MIB, 20 * MIB, 27 * MIB, 1).is_within
