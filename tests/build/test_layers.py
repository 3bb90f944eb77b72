"""The catalogue that `mortise layers` shows: what it says of a header is what the compiler thinks of it."""

import json
import subprocess

import jsonschema

from mortise import headers
from support.allocators import ROOT

CATALOGUE = headers.Catalogue(ROOT / "include")
# Stacks on which layers are tried, the first that fits: each gives what some layers need.
UNDER = ["Stack<Layers<SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>>",  # what routes are wrapped around stands on spans
         "Stack<Layers<Slab<>, SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>>", "Stack<Layers<SpanReserve<>, SpanCache<>, PageIndex, MmapHeap<>>>", "Stack<Layers<Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>", "Stack<Layers<SpanCache<>, PageIndex, MmapHeap<>>>",
         "Stack<Layers<SpanCache<>, PageIndex, StaysMapped, MmapHeap<>>>", "Stack<Layers<PageIndex, MmapHeap<>>>", "MmapHeap<>", "SharedHeap<>", "Stack<Layers<Tlsf<>, MmapHeap<>>>"]
TRIAL = """
#include "mortise/mortise.hpp"
namespace mortise {{
template <class L, class Under, class... More> constexpr bool compiles() {{
  if constexpr (Heap<L>) return sizeof(L) > 0;
  else if constexpr (FitsOn<L, Under>) return sizeof(typename L::template Over<Under>) > 0;
  else if constexpr (sizeof...(More) > 0) return compiles<L, More...>();
  else return false;
}}
template <class L> inline constexpr bool kCompiles = compiles<L, {under}>();
{checks}
}}
"""


def test_the_catalogue_is_printed(mortise):
    document = json.loads(mortise("layers", "--json").ok().out)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/layers.json").read_text()))
    text = mortise("layers").ok().out
    assert {e["name"] for e in document["layers"]} == CATALOGUE.layers.keys()
    assert all(e["name"] in text for e in document["layers"] + document["policies"])


def test_one_layer_in_full(mortise):
    text = mortise("layers", "ThreadCache").ok().out
    for part in ("slots = 30 (4..1024)", "the most blocks a thread keeps of one class", "Progress: hit wait-free", "cache/thread_cache.hpp"):
        assert part in text
    done = mortise("layers", "ThreadCach")
    assert done.status == 2 and "did you mean 'ThreadCache'?" in done.err


def argument(p: headers.Parameter) -> str:
    """A value for a parameter: its default, else the most there is."""
    if p.default is not None:
        return str(headers.number(p.default) or p.default)
    return str(p.high) if p.kind == "integer" else type_of(next(iter(CATALOGUE.answers(p).values())))


def type_of(e: headers.Entry, **given: int) -> str:
    wrapped = ["ThreadCache<>"] if e.name == "BypassFor" else ["Slab<>"]
    inside = (["Tlsf<>", "MmapHeap<>"] if e.holds_a_stack else wrapped) * any(p.kind == "layers" for p in e.parameters)
    arguments = [str(given.get(p.name, argument(p))) for p in e.parameters if p.kind != "layers"]
    return f"{e.cpp}<{', '.join(arguments + inside)}>" if e.parameters else e.cpp


def test_every_layer_compiles_at_both_ends_of_every_range_and_with_every_policy(tmp_path):
    checks = []
    for e in CATALOGUE.layers.values():
        for p in e.parameters:
            if p.kind == "integer":
                checks += [type_of(e, **{p.name: end}) for end in (p.low, p.high)]
            if p.kind == "policy":
                checks += [type_of(e, **{p.name: type_of(answer)}) for answer in CATALOGUE.answers(p).values()]
    assert len(checks) > 40
    text = "\n".join(f'static_assert(kCompiles<{check}>, "{check}");' for check in checks)
    (tmp_path / "trial.cpp").write_text(TRIAL.format(under=", ".join(UNDER), checks=text))
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", str(tmp_path / "trial.cpp")]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[:3000]
