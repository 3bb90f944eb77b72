"""Stacks put together wrongly are refused by name; stacks padded with layers that do nothing cost nothing.

If the first failed, a user would read pages of template errors about layers deep below the mistake. If the second failed, layers
would not be free, and one big hand-written allocator would be faster than a composed one.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = ["g++", "clang++-16"]

# What is wrong: the composition, and the layer that the first error must name.
WRONG = {
    "a cache without size classes below": ("CoreCache<>, MmapHeap<>", "CoreCache"),
    "a cache over spans only": ("CoreCache<>, SpanCache<>, PageIndex, MmapHeap<>", "CoreCache"),
    "batches without a backbone": ("BatchedFree<>, SpanCache<>, PageIndex, MmapHeap<>", "BatchedFree"),
    "a thread cache without size classes below": ("ThreadCache<>, SpanCache<>, PageIndex, MmapHeap<>", "ThreadCache"),
    "slabs without an index": ("Slab<>, MmapHeap<>", "Slab"),
    "spans without an index": ("SpanCache<>, MmapHeap<>", "SpanCache"),
    "an index over a source without a window": ("PageIndex, MallocHeap", "PageIndex"),
    "an index over what is not a source": ("PageIndex, SpanCache<>, PageIndex, MmapHeap<>", "PageIndex"),
    "alignment without size classes": ("Aligned, MmapHeap<>", "Aligned"),
    "a bypass around nothing with classes": ("Bypass<LargerThan<4096>, PageIndex>, MmapHeap<>", "Bypass"),
    "a wrong layer in the middle": ("Aligned, CoreCache<>, BatchedFree<>, MmapHeap<>", "BatchedFree"),
    "no source at the bottom": ("Aligned, Slab<>", "Slab"),
    "a source in the middle": ("MmapHeap<>, PageIndex, MmapHeap<>", "MmapHeap"),
}
# A layer of a newcomer's, and the words that the first error must have.
OWN = {
    "nothing of Passthrough": ("template <Heap Below> class Over { public: Below below; };", "derive it from mortise::Passthrough<Below>"),
    "another signature": ("template <Heap Below> class Over : public Passthrough<Below> { public: void* allocate(std::size_t) noexcept; };",
                          "public Block allocate(Thread&, Request) noexcept"),
    "a private verb": ("template <Heap Below> class Over : public Passthrough<Below> { Block allocate(typename Below::Thread&, Request) noexcept; };",
                       "public Block allocate(Thread&, Request) noexcept"),
    "a release that may throw": ("template <Heap Below> class Over : public Passthrough<Below> { public: void release(typename Below::Thread&, Block); };",
                                 "public void release(Thread&, Block) noexcept"),
    "no template": ("class Over {};", "LayerDoesNotFit<Own"),
    "no Over": ("", "LayerDoesNotFit<Own"),
}
NO_LIST = {
    "layers without Layers": ("Stack<PageIndex, MmapHeap<>>", "StackTakesLists<mortise::PageIndex>"),
    "a layer beside a list": ("Stack<Layers<PageIndex>, MmapHeap<>>", "StackTakesLists<mortise::MmapHeap"),
    "nothing": ("Stack<Layers<>>", "LastEntryIsNoSource<mortise::Layers<>"),
}
PROGRAM = """
#include "mortise/mortise.hpp"
using namespace mortise;
using Wrong = Stack<Layers<{layers}>>;
Wrong heap;
"""
EXPORT = """
#include "mortise/mortise.hpp"
namespace mortise::allocators {{
struct bare {{
  using Heap = Stack<Layers<{layers}>>;
  static constexpr const char* kName = "bare";
}};
}}
"""


def compile_text(compiler: str, source: Path, *flags: str) -> subprocess.CompletedProcess:
    assert shutil.which(compiler), f"{compiler} is not installed: run packaging/setup.sh build test"
    return subprocess.run([compiler, "-std=c++20", f"-I{ROOT / 'include'}", f"-I{ROOT}", *flags, str(source)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def first_error(output: str) -> str:
    return next((line for line in output.splitlines() if "error:" in line), "no error at all")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_stack_is_refused_by_name(what: str, compiler: str, tmp_path: Path) -> None:
    layers, culprit = WRONG[what]
    source = tmp_path / "wrong.cpp"
    source.write_text(PROGRAM.format(layers=layers))
    done = compile_text(compiler, source, "-fsyntax-only")
    assert done.returncode != 0, "it was accepted"
    assert re.search(rf"(LayerDoesNotFit|LastEntryIsNoSource)<\s*(mortise::)?{culprit}\b", first_error(done.stdout)), done.stdout[:2000]


def test_the_first_error_says_what_a_layer_needs(tmp_path: Path) -> None:
    """In the layer's own words: a user need not look for its requires-clause. Clang prints no text there, but the clause."""
    source = tmp_path / "wrong.cpp"
    source.write_text(PROGRAM.format(layers="CoreCache<>, MmapHeap<>"))
    assert '{"size classes and batches below (BatchedFree or Slab)"}' in first_error(compile_text("g++", source, "-fsyntax-only").stdout)
    source.write_text(PROGRAM.format(layers="MmapHeap<>, PageIndex, MmapHeap<>"))
    assert "it is a source, and ends its list" in first_error(compile_text("g++", source, "-fsyntax-only").stdout)


@pytest.mark.parametrize("where", ["Layers<Own, Counters<>, SpanCache<>, PageIndex, MmapHeap<>>", "Layers<Counters<>, Own, SpanCache<>, PageIndex, MmapHeap<>>"])
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("what", OWN)
def test_an_own_layer_that_is_none_is_refused_at_its_place(what: str, compiler: str, where: str, tmp_path: Path) -> None:
    """Also on top, where no other layer asks anything of it; below another, it is not that one which is blamed."""
    body, said = OWN[what]
    source = tmp_path / "own.cpp"
    source.write_text(f'#include "mortise/mortise.hpp"\nusing namespace mortise;\nstruct Own {{ {body} }};\nStack<{where}> heap;\n')
    done = compile_text(compiler, source, "-fsyntax-only")
    assert done.returncode != 0 and said in first_error(done.stdout), done.stdout[:2000]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("what", NO_LIST)
def test_what_is_no_list_is_refused(what: str, compiler: str, tmp_path: Path) -> None:
    stack, said = NO_LIST[what]
    source = tmp_path / "list.cpp"
    source.write_text(f'#include "mortise/mortise.hpp"\nusing namespace mortise;\n{stack} heap;\n')
    done = compile_text(compiler, source, "-fsyntax-only")
    assert done.returncode != 0 and said in first_error(done.stdout), done.stdout[:2000]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_pool_of_objects_that_no_slot_is_aligned_for_is_refused(compiler: str, tmp_path: Path) -> None:
    """Its constructor would succeed, and every acquisition fail."""
    source = tmp_path / "pool.cpp"
    source.write_text('#include "mortise/pool.hpp"\nstruct alignas(131072) Page { char byte; };\nmortise::distributed_pool<Page> pool{{.maximum = 4}};\n')
    assert "slots begin at multiples of 64 KiB at most" in first_error(compile_text(compiler, source, "-fsyntax-only").stdout)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_malloc_is_not_exported_without_block_of(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "bare.hpp").write_text(EXPORT.format(layers="MmapHeap<>"))
    source = tmp_path / "export.cpp"
    source.write_text('#include "abi/heap.hpp"\n')
    done = compile_text(compiler, source, "-fsyntax-only", f"-I{tmp_path}", '-DMORTISE_HEADER="bare.hpp"', "-DMORTISE_ALLOCATOR=bare")
    assert done.returncode != 0
    assert "malloc can only be exported from a stack that finds blocks by pointer" in first_error(done.stdout), done.stdout[:2000]


def functions(compiler: str, level: str, tmp_path: Path, *flags: str) -> dict[str, list[str]]:
    """The instructions of the exported functions and of all they call, names of templates left out."""
    target = tmp_path / "padded.o"
    done = compile_text(compiler, ROOT / "tests/compose/padded.cpp", level, "-DNDEBUG", "-fno-exceptions", "-fno-rtti",
                        "-fcf-protection=none", "-ffunction-sections", "-c", "-o", str(target))
    if done.returncode == 0 and flags:
        done = compile_text(compiler, ROOT / "tests/compose/padded.cpp", level, "-DNDEBUG", "-fno-exceptions", "-fno-rtti",
                            "-fcf-protection=none", "-ffunction-sections", *flags, "-c", "-o", str(target))
    assert done.returncode == 0, done.stdout[-3000:]
    listing = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", "-j.text.hit", "-j.text.unhit", "-j.text.get", "-j.text.put",
                              str(target)], text=True, capture_output=True, check=True).stdout
    found: dict[str, list[str]] = {}
    name = ""
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            found[name := head[1]] = []
        elif code := re.match(r"\s+[0-9a-f]+:\s+(.*)", line):
            text = re.sub(r"(_ZN?\w+|__rseq_cs)([+-]0x[0-9a-f]+)?", "SYMBOL", re.sub(r"<.*>", "", code[1]))
            found[name].append(text.split("#")[0].strip())
    return found


@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_layers_that_do_nothing_are_nothing(compiler: str, level: str, tmp_path: Path) -> None:
    plain, padded = (functions(compiler, level, tmp_path, *flags) for flags in ([], ["-DPADDED"]))
    assert {"hit", "unhit", "get", "put"} <= plain.keys()
    for name in ("hit", "unhit", "put"):
        assert plain[name] == padded[name]
    # What the compiler inlines into a miss varies: test_costs_nothing.py compares misses, and all the rest, function by function.
