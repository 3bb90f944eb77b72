"""Should a size class be too coarse, every block of some size would waste memory in every program."""

import pytest

from support.allocators import CARDS, NAMES, program, run

MOST = 0.125
QUANTUM = 16
STEPPED = {n: next(layer for layer in CARDS[n]["layers"] if "block_bytes_max" in layer["parameters"]) for n in NAMES
           if any(layer["policies"].get("SizeClasses") == "Geometric" for layer in CARDS[n]["layers"])}


@pytest.mark.parametrize("name", STEPPED)
def test_size_classes_waste_an_eighth_at_most(name):
    """Above 64 bytes, beyond the rounding to 16 bytes that alignment asks of every allocator."""
    limit = STEPPED[name]["parameters"]["block_bytes_max"]
    for line in run([program("contract", "usable"), limit], name).ok().out.splitlines():
        asked, usable = map(int, line.split())
        if asked > 64:
            rounded = -(-asked // QUANTUM) * QUANTUM
            assert usable - rounded <= MOST * rounded, f"malloc({asked}) takes {usable} bytes"
