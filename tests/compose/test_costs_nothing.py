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
PADDING = re.compile(r"nop\w?|xchg|data16|cs")


def compiled(compiler: str, target: Path, source: str, *flags: str) -> Path:
    done = subprocess.run([compiler, *FLAGS, *flags, ROOT / "tests/compose" / source, "-o", target], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[:3000]
    return target


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: " ".join(way))
def counts(request, tmp_path_factory) -> dict[tuple[str, str], tuple[int, int]]:
    """(allocator, verb) -> instructions of the composed call and of the one by hand."""
    compiler, level = request.param
    target = compiled(compiler, tmp_path_factory.mktemp("fused") / "fused", "fused.cpp", level, "-mno-red-zone")
    out = subprocess.run([target], check=True, text=True, capture_output=True).stdout
    return {(name, verb): (int(composed), int(fused)) for name, verb, composed, fused in (line.split() for line in out.splitlines())}


@pytest.mark.parametrize("verb", ("malloc", "free"))
@pytest.mark.parametrize("name", ("hslab", "wfslab", "tlsfcc"))
def test_a_composed_hit_is_as_short_as_one_by_hand(counts, name, verb):
    composed, fused = counts[name, verb]
    assert fused > 10, "the hand-written hit was none"
    assert composed <= fused, f"{composed} instructions through the layers, {fused} by hand"


def without_padding(name: str) -> str:
    """A function's name as it would be without layers that do nothing; of whom a forwarder forwards to is no matter either."""
    for start, kept in (("mortise::DoesNothing::Over<", True), ("mortise::Passthrough<", False)):
        while (at := name.find(start)) >= 0:
            end, depth = at + len(start), 1
            while depth:
                depth += {"<": 1, ">": -1}.get(name[end], 0)
                end += 1
            name = name[:at] + (name[at + len(start) : end - 1].rstrip() if kept else "Passthrough") + name[end:]
    return re.sub(r"\s+>", ">", name)


# Which of two ways is the jump and which goes straight on is a matter of where they lie.
NEGATED = {"jne": "je", "jbe": "ja", "jb": "jae", "jle": "jg", "jl": "jge", "jns": "js", "jno": "jo", "jnp": "jp"}


def functions(target: Path) -> dict[str, list[Counter[str]]]:
    """The operations of every function of an object, by name; where a function ends and where its parts lie do not count."""
    listing = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", target], check=True, text=True, capture_output=True).stdout
    found: dict[str, list[Counter[str]]] = {}
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:", line):
            found.setdefault(without_padding(head[1]), []).append(now := Counter())
        elif (code := re.match(r"\s+[0-9a-f]+:\s+(\S+)\s*(.*)", line)) and not PADDING.fullmatch(code[1]):
            if not (code[1] in ("jmp", "ret", "pop") or (code[1] in ("add", "sub") and code[2].endswith("%rsp"))):
                now[NEGATED.get(code[1], code[1])] += 1
    return {name: sorted(parts, key=lambda part: sorted(part.items())) for name, parts in found.items()}


# What g++ inlines into a miss depends on how large everything else of the file is for a moment, the layers that do nothing included:
# its choices across functions are switched off, so that each function is compared with itself.
ALONE = {"g++": ["-fno-inline-functions", "-fno-inline-small-functions", "-fno-inline-functions-called-once", "-fno-partial-inlining",
                 "-fno-ipa-cp", "-fno-ipa-sra", "-fno-ipa-ra", "-fno-ipa-icf"], "clang++-16": []}
# So many copies more or less in a function, and constants asked for again instead of kept: g++ deals its registers out anew.
COPIES = {("g++", "-O2"): 3, ("g++", "-O3"): 3}


@pytest.mark.parametrize("compiler, level", WAYS)
def test_every_function_of_a_padded_stack_is_the_same(compiler, level, tmp_path):
    flags = [level, *ALONE[compiler], "-ffunction-sections", "-c"]
    plain, padded = (functions(compiled(compiler, tmp_path / "o", "padded.cpp", *flags, *more)) for more in ([], ["-DPADDED"]))
    assert plain.keys() == padded.keys() and len(plain) > 15
    assert {"hit", "unhit", "get", "put"} <= plain.keys() and sum(part.total() for parts in plain.values() for part in parts) > 3000
    for name, parts in plain.items():
        assert len(parts) == len(padded[name]), name
        for here, there in zip(parts, padded[name]):
            differs = (here - there) + (there - here)
            assert differs.keys() <= {"mov", "lea"} and differs.total() <= COPIES.get((compiler, level), 0), f"{name}: {differs}"
