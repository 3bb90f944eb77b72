"""The catalogue of layers is read from the headers. A layer that it missed, or a parameter without a meaning, could not be used
from a composition without reading C++.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from mortise import formats, headers  # noqa: E402
from mortise.commands import layers as page  # noqa: E402

CATALOGUE = headers.Catalogue(ROOT / "include")
ENTRIES = {f"{e.slot or e.family}.{e.name}": e for e in [*CATALOGUE.layers.values(), *CATALOGUE.offered()]}


def test_every_layer_is_in_the_catalogue() -> None:
    for family in headers.FAMILIES:
        for path in (ROOT / "include/mortise" / family).glob("*.hpp"):
            said = re.findall(r'kName = "(\w+)";\s*static constexpr const char\* kWhat', path.read_text())
            missing = set(said) - CATALOGUE.layers.keys()
            assert not missing, f"{path}: the catalogue does not see {missing}"


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_say_what_they_are(name: str) -> None:
    e = ENTRIES[name]
    assert len(e.what) > 10, f"{e.header}: {e.name} has no sentence that says what it is (kWhat, or a docstring)"
    assert e.family not in headers.FAMILIES or e.family == "source" or e.needs, f"{e.header}: {e.name} has no kNeeds"


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.parameters])
def test_parameters_say_what_they_are(name: str) -> None:
    e = ENTRIES[name]
    names = [p.name for p in e.parameters]
    assert len(set(names)) == len(names), f"{e.header}: {e.name} has two parameters of one name: {names}"
    for p in e.parameters:
        assert p.what, f"{e.header}: say in the docstring of {e.name} what `{p.cpp}` is, in a line that begins with `{p.cpp}`"
        if p.kind == "integer":
            example = "`kSlots` (4..1024): what it is; or (4 KiB..1 MiB, power of two)"
            assert p.low is not None and p.high is not None and p.low < p.high, f"{e.header}: {e.name}: the range of `{p.cpp}`, as in {example}"
            assert p.rule in ("", "power of two"), f"{e.header}: {e.name}: `{p.cpp}`: the rule '{p.rule}' is not known"
            value = headers.number(CATALOGUE.default(p)) if p.default else p.low
            assert value is not None and p.low <= value <= p.high, f"{e.header}: {e.name}: the default of `{p.cpp}` is outside of its range"
        if p.kind == "policy":
            assert CATALOGUE.answers(p), f"{e.header}: {e.name}: nothing answers `{p.cpp}`: a type parameter is named for its slot (policy/*.hpp, Sync)"


@pytest.mark.parametrize("name", ENTRIES)
def test_the_pages_on_layers_and_policies_name_each(name: str) -> None:
    """A slot that the tables leave out is not found by whoever looks for one."""
    e = ENTRIES[name]
    page, cpp = ("3-policies", e.cpp.removeprefix("mortise::")) if e.slot else ("2-layers", e.name)
    assert re.search(rf"`{cpp}\b", (ROOT / f"docs/{page}.md").read_text()), f"docs/{page}.md does not name `{cpp}`"


def test_the_page_is_current() -> None:
    wanted = page.markdown({"schema": formats.LAYERS} | CATALOGUE.document())
    assert (ROOT / "docs/catalogue.md").read_text() == wanted, "run: build/bin/mortise layers --markdown > docs/catalogue.md"
