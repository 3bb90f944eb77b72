"""Should a size class be too coarse, every block of some size would waste memory in every program."""

import pytest

from support.allocators import CARDS, NAMES, program, run

MOST = 0.125
QUANTUM = 16
CANCELLED_MAX = 4096  # where a layer rounds without saying up to what: EliminationArray
LIMITS = {n: max(layer["parameters"].get("block_bytes_max", CANCELLED_MAX) for layer in CARDS[n]["layers"]
                 if layer["policies"].get("SizeClasses") == "Geometric") for n in NAMES
          if any(layer["policies"].get("SizeClasses") == "Geometric" for layer in CARDS[n]["layers"])}


@pytest.mark.parametrize("name", LIMITS)
def test_size_classes_waste_an_eighth_at_most(name):
    """Above 64 bytes, beyond the rounding to 16 bytes that alignment asks of every allocator."""
    for line in run([program("contract", "usable"), LIMITS[name]], name).ok().out.splitlines():
        asked, usable = map(int, line.split())
        if asked > 64:
            rounded = -(-asked // QUANTUM) * QUANTUM
            assert usable - rounded <= MOST * rounded, f"malloc({asked}) takes {usable} bytes"
