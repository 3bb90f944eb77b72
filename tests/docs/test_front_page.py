"""Should the front page show another allocator than the one that ships, a reader would judge something that there is not."""

import json
import re

from support.allocators import CARDS, ROOT

PAGE = (ROOT / "README.md").read_text()
SOURCE = (ROOT / "include/mortise/allocators/hslab.hpp").read_text()


def plain(code):
    return re.sub(r"\s+", "", re.sub(r"//.*", "", code))


def test_the_list_is_the_one_that_ships():
    shown = re.search(r"^using HslabLayers = (Layers<.*?>);", PAGE, re.M | re.S)[1]
    written = re.search(r"using HslabWith = (Layers<.*?>);", SOURCE, re.S)[1]
    assert "using HslabLayers = HslabOver<MmapHeap<>>;" in SOURCE and "using HslabOver = HslabWith<CoreCache<32_KiB>, Source...>;" in SOURCE
    assert plain(shown) == plain(written).replace("Cache,Bypass", "CoreCache<32_KiB>,Bypass").replace("Source...", "MmapHeap<>")


def test_a_hit_has_so_many_instructions():
    counted = {name: sum(mix.values()) for name, mix in json.loads((ROOT / "tests/golden/hslab.json").read_text()).items()}
    assert f"a hit of `malloc` on this one is {counted['malloc']} instructions" in PAGE


def test_every_allocator_has_its_line():
    table = re.search(r"^\| allocator \| made of \| for \|\n(.*?)\n\n", PAGE, re.M | re.S)[1]
    assert sorted(name for row in table.splitlines()[1:] for name in re.findall(r"`([\w+]+)`", row.split("|")[1])) == sorted(CARDS)
