"""Compositions on a machine without an operating system and without a libc. Should these fail, the allocator for embedded
programs would need what such programs do not have.

The images run on the board `virt` of qemu-system-aarch64, two cores, caches as the emulator has them.
"""

import sys

import pytest

from support.allocators import ROOT

sys.path.insert(0, str(ROOT / "examples/bare"))
import make  # noqa: E402

WAYS = {"tlsf": [], "tlsfcc": ["-DSECOND_CORE"]}


@pytest.fixture(scope="module")
def heaps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare")
    return {name: make.library(ROOT / f"examples/bare/{name}.toml", folder) for name in WAYS}


@pytest.mark.parametrize("name", WAYS)
def test_an_image_runs_on_it(heaps, tmp_path, name):
    done = make.run(make.image(heaps[name], make.objects(heaps[name], tmp_path, *WAYS[name]), tmp_path))
    assert done.returncode == 0 and done.stdout.strip() == f"{name} holds", done.stdout


def test_a_crime_is_told_to_the_program(heaps, tmp_path):
    done = make.run(make.image(heaps["tlsf"], make.objects(heaps["tlsf"], tmp_path, "-DCRIME"), tmp_path))
    assert done.returncode == 2 and done.stdout.split("\n")[:2] == ["tlsf holds", "fault: invalid_free"], done.stdout


@pytest.mark.parametrize("name", WAYS)
def test_what_it_costs_is_what_the_documentation_says(heaps, tmp_path, name):
    """Within a tenth: compilers differ a little."""
    program = make.objects(heaps[name], tmp_path, *WAYS[name])
    cost = make.cost(make.image(heaps[name], program, tmp_path), program)
    row = next(line for line in (ROOT / "docs/platforms.md").read_text().splitlines() if line.startswith(f"| `{name}` |"))
    rom, ram = (int(cell.replace(",", "").split()[0]) for cell in row.split("|")[2:4])
    assert abs(cost["rom"] - rom) <= rom / 10 and abs(cost["ram"] - make.ARENA - ram) <= ram / 10, cost


def test_nothing_is_kept_for_a_thread_where_there_are_none(tmp_path, mortise):
    spec = tmp_path / "wrong.toml"
    spec.write_text('layers = [\n "SizedHeader",\n "ThreadCache", "Slab", "SpanCache", "PageIndex", { layer = "StaticHeap", bytes = "1 MiB" } ]\n')
    done = mortise("build", spec, "-o", tmp_path / "x.a", "--freestanding", "--compiler", "aarch64-linux-gnu-g++")
    assert done.status == 2 and f"{spec}:2: without an operating system nothing is kept for a thread" in done.err, done.err
