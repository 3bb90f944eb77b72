"""Composing costs nothing: a hit through the layers takes no more instructions than one written by hand as a single function, and
a stack with layers that do nothing between its own is the same code to the last function.

If these failed, one big hand-written allocator would be faster than a composed one, and nobody would compose.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WAYS = [(compiler, level) for compiler in ("g++", "clang++-16") for level in ("-O2", "-O3")]
FLAGS = ["-std=c++20", "-DNDEBUG", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fcf-protection=none", f"-I{ROOT / 'include'}", f"-I{ROOT}"]
# A request through the combining lock may be of any alignment and zeroed, and travels as a closure; the one by hand is of a
# size alone. docs/6-proof.md says more. It may not become worse.
BEYOND = {"g++": {"malloc": 45, "free": 15}, "clang++-16": {"malloc": 64, "free": 70}}
PADDING = re.compile(r"nop\w?|xchg|data16|cs")


def compiled(compiler: str, target: Path, source: str, *flags: str) -> Path:
    done = subprocess.run([compiler, *FLAGS, *flags, ROOT / "tests/compose" / source, "-o", target], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[:3000]
    return target


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: " ".join(way))
def counts(request, tmp_path_factory) -> tuple[str, dict[tuple[str, str], tuple[int, int]]]:
    """(allocator, verb) -> instructions of the composed call and of the one by hand."""
    compiler, level = request.param
    target = compiled(compiler, tmp_path_factory.mktemp("fused") / "fused", "fused.cpp", level, "-mno-red-zone")
    out = subprocess.run([target], check=True, text=True, capture_output=True).stdout
    return compiler, {(name, verb): (int(composed), int(fused)) for name, verb, composed, fused in (line.split() for line in out.splitlines())}


@pytest.mark.parametrize("verb", ("malloc", "free"))
@pytest.mark.parametrize("name", ("hslab", "wfslab", "tlsfcc"))
def test_a_composed_hit_is_as_short_as_one_by_hand(counts, name, verb):
    compiler, counted = counts
    composed, fused = counted[name, verb]
    assert fused > 10, "the hand-written hit was none"
    assert composed <= fused + (BEYOND[compiler][verb] if name == "tlsfcc" else 0), f"{composed} instructions through the layers, {fused} by hand"


def functions(target: Path) -> Counter[tuple[str, ...]]:
    """The operations of every function of an object, in order; operands name places, which differ."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", target], check=True, text=True, capture_output=True).stdout
    found: list[list[str]] = []
    for line in listing.splitlines():
        if re.match(r"[0-9a-f]+ <.*>:", line):
            found.append([])
        elif (code := re.match(r"\s+[0-9a-f]+:\s+(\S+)", line)) and not PADDING.fullmatch(code[1]):
            found[-1].append(code[1])
    return Counter(map(tuple, found))


@pytest.mark.parametrize("compiler, level", WAYS)
def test_a_padded_stack_is_the_same_code_as_a_whole(compiler, level, tmp_path):
    plain, padded = (functions(compiled(compiler, tmp_path / "o", "padded.cpp", level, "-ffunction-sections", "-c", *flags)) for flags in ([], ["-DPADDED"]))
    assert min(plain.total(), padded.total()) > 15
    here, there = list((plain - padded).elements()), list((padded - plain).elements())
    if compiler == "g++":  # on some misses it merges a tail or inlines a call that it did not before; they become no longer
        assert len(here) <= 6 and sum(map(len, there)) <= sum(map(len, here)) + 4
    else:  # one function: the same instructions, two of them earlier
        assert len(here) <= 1 and [sorted(f) for f in here] == [sorted(f) for f in there]
