"""What is wrong with a composition is said in one line that begins with its place. Should that fail, a user who mistyped
one word would read pages of template errors, or get an allocator that is not the one described.
"""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest
from mortise import building
from mortise.errors import WrongUse

from support.allocators import BUILD, ROOT

SLABS = '"SpanCache", "PageIndex", "MmapHeap"'
BYPASS = 'layers = [ "Aligned",\n {{ layer = "Bypass", route = {{ policy = "LargerThan", bytes = "64 KiB" }}, wrapped = [ {wrapped} ] }},\n {below} ]\n'
# What is wrong: the composition, the line that the message names, and what the message says.
BROKEN = {
    "a bracket is missing": ('name = "x"\nlayers = [ "Tlsf",\n"MmapHeap"\nuse = "y"\n', 4, "not TOML"),
    "a text without its end": ('name = "x\n', 1, "not TOML"),
    "a number of thousands of digits": (f'layers = [\n  {{ layer = "ThreadCache", slots = "{"9" * 5000}" }},\n  "MmapHeap" ]\n', 2, "expected a whole number in 4..1024"),
    "a header's name with a zero": ('headers = [\n "a\\u0000b" ]\nlayers = [ "Tlsf", "MmapHeap" ]\n', 2, "embedded null byte"),
    "a mark of Windows before it": ('\ufefflayers = [ "Tlsf",\n "Mmap" ]\n', 2, "unknown layer 'Mmap'"),
    "a key given twice": ('name = "x"\nlayers = [ "Tlsf", "MmapHeap" ]\nname = "y"\n', 3, "a key is given twice"),
    "a parameter given twice": ('layers = [\n { layer = "ThreadCache", slots = 8, slots = 9 },\n "MmapHeap" ]\n', 2, "a key is given twice"),
    "an unknown key": ('name = "x"\nlayer = [ "Tlsf", "MmapHeap" ]\n', 2, "unknown key 'layer': did you mean 'layers'?"),
    "an unknown layer": ('layers = [\n  "Aligned",\n  "Slap",\n  "MmapHeap" ]\n', 3, "unknown layer 'Slap': did you mean 'Slab'?"),
    "an unknown parameter": ('[[layers]]\nlayer = "CoreCache"\nbyte_per_class = 4096\n[[layers]]\nlayer = "MmapHeap"\n', 3,
                             "CoreCache: unknown parameter 'byte_per_class': did you mean 'bytes_per_class'?"),
    "a parameter of another type": ('layers = [\n  { layer = "ThreadCache", slots = "many" },\n  "MmapHeap" ]\n', 2,
                                    'ThreadCache: slots = "many": expected a whole number in 4..1024'),
    "a truth for a number": ('layers = [\n  { layer = "ThreadCache", slots = true },\n  "MmapHeap" ]\n', 2, "slots = true: expected a whole number"),
    "a parameter out of range": ('layers = [\n  { layer = "ThreadCache", slots = 2 },\n  "MmapHeap" ]\n', 2,
                                 "ThreadCache: slots = 2 is out of range: expected 4..1024"),
    "no power of two": ('layers = [\n  "Tlsf",\n  { layer = "MmapHeap", granule_bytes = "65 KiB" } ]\n', 3,
                        "MmapHeap: granule_bytes = \"65 KiB\" is no power of two"),
    "a parameter that must be given": ('layers = [\n  "Tlsf",\n  "StaticHeap" ]\n', 3, "StaticHeap needs its parameter 'bytes'"),
    "an unknown policy": ('layers = [\n  { layer = "Tlsf", sync = "FutexLok" },\n  "MmapHeap" ]\n', 2,
                          "Tlsf: unknown policy for sync 'FutexLok': did you mean 'FutexLock'?"),
    "a policy for another layer": ('layers = [\n  { layer = "Slab", fit = "BestFit" },\n  ' + SLABS + " ]\n", 2,
                                   "Slab: unknown policy for fit 'BestFit'"),
    "a policy's parameter": ('layers = [\n "Aligned",\n { layer = "Slab", size_classes = { policy = "Geometric", steps = 3 } },\n ' + SLABS + " ]\n", 3,
                             "Geometric: steps = 3 is no power of two"),
    "colours twice": ('layers = [\n "Aligned",\n { layer = "Slab", size_classes = { policy = "Coloured", size_classes = { policy = "Coloured", '
                      'size_classes = "Geometric" } } },\n ' + SLABS + " ]\n", 3, "Coloured: unknown policy for size_classes 'Coloured'"),
    "more colours than a byte tells": ('layers = [\n "Aligned",\n { layer = "Slab", size_classes = { policy = "Coloured", size_classes = "Geometric", colours = 16 } },\n ' +
                                       SLABS + " ]\n", 3, "colours: more than 255 classes in all"),
    "colours where they mean nothing": ('layers = [\n { layer = "SegregatedFit", size_classes = { policy = "Coloured", size_classes = "Geometric" } },\n "SpanCache", '
                                        '"PageIndex", "StaysMapped", "MmapHeap" ]\n', 2, "SegregatedFit: unknown policy for size_classes 'Coloured'"),
    "no source": ('layers = [\n  "Aligned",\n  "Slab" ]\n', 3, "the last layer is 'Slab', which is no source: end the list with one of BrkHeap"),
    "a source in the middle": ('layers = [\n  "MmapHeap",\n  "Tlsf",\n  "MmapHeap" ]\n', 2, "the source 'MmapHeap' has layers below it"),
    "a source inside a route": ('layers = [ { layer = "Bypass", route = { policy = "LargerThan", bytes = 4096 }, wrapped = [\n "MmapHeap" ] },\n ' + SLABS + "]\n", 2,
                                "the source 'MmapHeap' has layers below it"),
    "a stack inside a route without a source": ('layers = [\n { layer = "Fallback", first = [\n "Tlsf" ] },\n "Tlsf", "MmapHeap" ]\n', 3,
                                               "the last layer is 'Tlsf', which is no source"),
    "two guards in one plane": ('layers = [\n { layer = "ZeroOnFree", plane = 0 },\n "HeaderMagic",\n "BlockMarks", "MmapHeap" ]\n', 3,
                               "HeaderMagic and ZeroOnFree keep their marks in one plane of BlockMarks: expected another plane for one of them, such as plane = 1"),
    "a plane that is not there": ('layers = [\n "ZeroOnFree",\n "BlockMarks",\n "MmapHeap" ]\n', 3,
                                 'ZeroOnFree keeps its marks in plane 1 of BlockMarks, which has 1: expected { layer = "BlockMarks", planes = 2 }'),
    "a guard that zeroes the tails of another": ('layers = [ "ZeroOnFree",\n "TailChecksum", "Aligned", "Slab", "SpanCache", "PageIndex", { layer = "BlockMarks", planes = 2 },'
                                                 '\n"MmapHeap" ]\n', 1, "ZeroOnFree does not fit on 'TailChecksum': it needs size classes"),
    "a guard of tails over one that wipes": ('layers = [ "TailChecksum",\n "ZeroOnFree", "Aligned", "Slab", "SpanCache", "PageIndex", { layer = "BlockMarks", planes = 2 },'
                                             '\n"MmapHeap" ]\n', 1, "TailChecksum does not fit on 'ZeroOnFree': it needs a heap below that finds blocks"),
    "guard pages behind what is no span": ('layers = [ "GuardPages",\n "Aligned", "Slab", ' + SLABS + " ]\n", 1,
                                           "GuardPages does not fit on 'Aligned': it needs spans below"),
    "alignment above a guard that takes a part of each block": ('layers = [\n "Aligned",\n "TailChecksum", "Slab", ' + SLABS + " ]\n", 2,
                                                                "Aligned does not fit on 'TailChecksum': it needs size classes below (Slab), and no guard or header"),
    "a fill above a guard of tails": ('layers = [ { layer = "DelayedFree", fill = "Zeroed" },\n "TailChecksum", "Aligned", "Slab", ' + SLABS + " ]\n", 1,
                                      "DelayedFree does not fit on 'TailChecksum': it needs a heap below that finds blocks by pointer; with a fill, none with a guard"),
    "zeroes above links in released blocks": ('layers = [ "ZeroOnFree",\n "SegregatedFit", "SpanCache", "PageIndex", { layer = "BlockMarks", planes = 2 }, "StaysMapped", "MmapHeap" ]\n',
                                              1, "ZeroOnFree does not fit on 'SegregatedFit': it needs size classes"),
    "seals above sampled blocks": ('layers = [ "SealedTail",\n "SampledGuards", "Aligned", "Slab", "SpanCache", "PageIndex", "BlockMarks", "MmapHeap" ]\n', 1,
                                   "SealedTail does not fit on 'SampledGuards': it needs a heap with size classes that finds blocks by pointer"),
    "guarded blocks without a header": ('layers = [ "SampledGuards",\n "SizedHeader", "MmapHeap" ]\n', 1,
                                        "SampledGuards does not fit on 'SizedHeader': it needs a heap below that finds blocks by pointer, not by what lies before it"),
    "marks for blocks of two heaps": ('layers = [ "HeaderMagic",\n { layer = "Fallback", first = [ "Tlsf", { layer = "StaticHeap", bytes = 65536 } ] }, "Tlsf", "BlockMarks", "MmapHeap" ]\n',
                                      1, "HeaderMagic does not fit on 'Fallback': it needs BlockMarks"),
    "a guard that large blocks go past": (BYPASS.format(wrapped='"HeaderMagic", "Slab"', below='"SpanCache", "PageIndex", "BlockMarks", "MmapHeap"'), 2,
                                          "Bypass does not fit on 'SpanCache': it needs wrapped layers that give size classes (such as Slab), and no guard or header"),
    "walls that large blocks go past": (BYPASS.format(wrapped='"Slab", "GuardPages"', below=SLABS), 2, "Bypass does not fit on 'SpanCache': it needs wrapped layers"),
    "walls for slabs below large blocks": ('layers = [ "Aligned",\n { layer = "Bypass", route = { policy = "LargerThan", bytes = "64 KiB" }, wrapped = [ "Slab" ] },\n'
                                           ' { layer = "GuardPages", behind_large = false }, ' + SLABS + " ]\n", 2, "Bypass does not fit on 'GuardPages': it needs wrapped layers"),
    "sizes compared below a header": ('layers = [\n "SizedHeader",\n "SizeCheck", "Aligned", "SegregatedFit", "SpanCache", "PageIndex", "StaysMapped", "MmapHeap" ]\n', 2,
                                      "SizedHeader does not fit on 'SizeCheck': it needs any heap below that compares no sizes"),
    "slabs in slabs": ('layers = [ "Aligned",\n "Slab",\n "Slab", ' + SLABS + " ]\n", 2, "Slab does not fit on 'Slab': it needs a layer below that gives spans"),
    "slabs beside a header": ('layers = [ "Aligned",\n "Slab",\n "SizedHeader", ' + SLABS + " ]\n", 2, "Slab does not fit on 'SizedHeader': it needs a layer below that gives spans"),
    "free spans of two owners": ('layers = [ "Aligned", "Slab",\n "SpanCache",\n ' + SLABS + " ]\n", 2, "SpanCache does not fit on 'SpanCache': it needs PageIndex directly below"),
    "marks on spans that are taken apart": ('layers = [ "Aligned", { layer = "Bypass", route = { policy = "LargerThan", bytes = "64 KiB" }, wrapped = [ "Slab" ] },\n "SpanCache",\n'
                                            ' "HeaderMagic", "PageIndex", "BlockMarks", "MmapHeap" ]\n', 2, "SpanCache does not fit on 'HeaderMagic': it needs PageIndex directly below"),
    "slabs kept with their walls": ('layers = [ "Aligned", "Slab",\n "SlabArrayCache",\n "GuardPages", ' + SLABS + " ]\n", 2, "SlabArrayCache does not fit on 'GuardPages': it needs"),
    "walls in what is read without a lock": ('layers = [ "Aligned",\n "SegregatedFit",\n "GuardPages", "SpanCache", "PageIndex", "StaysMapped", "MmapHeap" ]\n', 2,
                                             "SegregatedFit does not fit on 'GuardPages': it needs spans below"),
    "spans that nobody keeps, read without a lock": ('layers = [ "Aligned",\n "SegregatedFit",\n "PageIndex", "StaysMapped", "MmapHeap" ]\n', 2,
                                                     "SegregatedFit does not fit on 'PageIndex': it needs spans below"),
    "slabs of too large blocks": ('layers = [ { layer = "Bypass", route = { policy = "LargerThan", bytes = "1 MiB" }, wrapped = [\n'
                                  '{ layer = "Slab", size_classes = { policy = "Geometric", max_bytes = "1 MiB" } } ] },\n ' + SLABS + " ]\n", 2,
                                  "slabs of so large blocks would be too long: take a smaller largest class (max_bytes), or smaller granules"),
    "granules too small for an index": (BYPASS.format(wrapped='"Slab"', below='"SpanCache", "PageIndex", { layer = "StaticHeap", bytes = "1 MiB", granule_bytes = 64 }'), 3,
                                     "PageIndex: granules of 1 KiB at least (granule_bytes)"),
    "an array without room for its tables": ('layers = [ "SizedHeader", "DelayedFree", "Tlsf",\n { layer = "StaticHeap", bytes = "4 KiB" } ]\n', 2,
                                             "StaticHeap has no room for the tables of the layers above it, and malloc would give NULL, always"),
    "a route without its stack": ('layers = [\n "Fallback",\n "MallocHeap" ]\n', 2,
                                 "Fallback needs its parameter 'first': expected a list of layers that ends with a source"),
    "a cache without classes below": ('layers = [\n  "CoreCache",\n  "MmapHeap" ]\n', 2,
                                      "CoreCache does not fit on 'MmapHeap': it needs size classes and batches below (BatchedFree or Slab)"),
    "slabs without an index": ('layers = [\n  "Aligned",\n  "Slab",\n  "MmapHeap" ]\n', 3, "Slab does not fit on 'MmapHeap': it needs"),
    "a guard without room for its marks": ('layers = [\n  "HeaderMagic",\n  "Aligned", "Slab", ' + SLABS + " ]\n", 2,
                                           "HeaderMagic does not fit on 'Aligned': it needs BlockMarks above the source"),
    "a wrong layer inside a route": ('layers = [\n { layer = "Bypass", route = { policy = "LargerThan", bytes = 4096 }, wrapped = [\n "BatchedFree" ] },\n ' + SLABS + "]\n",
                                     3, "BatchedFree does not fit on 'SpanCache': it needs"),
    "a route around nothing": ('layers = [\n { layer = "Bypass", route = { policy = "LargerThan", bytes = 4096 } },\n ' + SLABS + "]\n", 2,
                               "Bypass does not fit on 'SpanCache': it needs wrapped layers that give size classes"),
    "no way from a pointer to its block": ('layers = [\n  "Counters",\n  "MmapHeap" ]\n', 2, "no layer finds a block by its pointer"),
    "malloc out of malloc": ('layers = [\n  "SizedHeader",\n  "MallocHeap" ]\n', 3, "MallocHeap calls the malloc that this library replaces"),
    "malloc out of malloc, in a stack inside": ('layers = [ { layer = "Fallback", first = [ "SizedHeader",\n "MallocHeap" ] },\n "SizedHeader", "MmapHeap" ]\n', 2,
                                               "MallocHeap calls the malloc that this library replaces"),
    "memory that nobody brings": ('layers = [ "Tlsf",\n "RangeHeap" ]\n', 2, "RangeHeap has no memory before a program in C++ tells it of some"),
    "functions that nobody names": ('layers = [ "SizedHeader",\n "CallbackHeap" ]\n', 2, "CallbackHeap has no memory before a program in C++ tells it of some"),
    "a route beyond the classes": ('layers = [\n "Aligned",\n { layer = "Bypass", route = { policy = "LargerThan", bytes = "1 MiB" }, wrapped = [\n "Slab" ] },\n ' +
                                   SLABS + "]\n", 3, "Bypass: LargerThan 1 MiB, but Slab serves no more than 256 KiB here, and malloc of a size between "
                                   'would give NULL: expected bytes = "256 KiB" or less'),
    "a route beyond the classes, and a layer below them": ('layers = [\n "Aligned",\n { layer = "Bypass", route = { policy = "LargerThan", bytes = "1 MiB" }, wrapped = [\n'
                                                           ' "Slab", "SlabArrayCache" ] },\n ' + SLABS + "]\n", 3, "Bypass: LargerThan 1 MiB, but Slab serves no more than 256 KiB"),
    "classes and a route that takes nothing large": ('layers = [\n "AffinityPools",\n "Slab", ' + SLABS + "]\n", 3, "Slab serves no more than 256 KiB here, and malloc of more would give NULL"),
    "classes and no alignment": ('layers = [ "ThreadCache",\n "SegregatedFit", "SpanCache", "PageIndex", "StaysMapped", "MmapHeap" ]\n', 2,
                                 "SegregatedFit aligns blocks to 16 bytes, and aligned_alloc of more would give NULL here: put Aligned above it"),
    "classes and no route": ('layers = [\n "Aligned",\n { layer = "Slab", size_classes = { policy = "PowerOfTwo", max_bytes = "32 KiB" } },\n ' + SLABS + "]\n", 3,
                             'Slab serves no more than 32 KiB here, and malloc of more would give NULL: wrap it in Bypass with route LargerThan, bytes = "32 KiB"'),
    "no lock": ('layers = [\n  { layer = "Tlsf", sync = "Unsynchronised" },\n  "MmapHeap" ]\n', 2, 'Tlsf: sync = "Unsynchronised": threads call malloc at once'),
    "no lock in a bin": ('layers = [ "Aligned", { layer = "Bypass", route = { policy = "LargerThan", bytes = "32 KiB" }, wrapped = [\n'
                         ' { layer = "SegregatedFit", sync = { policy = "LockedBin", sync = "Unsynchronised" } } ] },\n ' + SLABS + "]\n", 2,
                         'SegregatedFit: sync = "Unsynchronised"'),
    "no lock in a stack inside": ('layers = [ { layer = "Fallback", first = [ "Tlsf",\n "LimitedTo",\n { layer = "StaticHeap", bytes = 65536, sync = "Unsynchronised" } ] },\n'
                                  '"Tlsf", "MmapHeap" ]\n', 3, 'StaticHeap: sync = "Unsynchronised"'),
    "no lock, and who asks past the one above": ('layers = [ { layer = "Sampled" }, "Tlsf",\n { layer = "StaticHeap", bytes = 65536, sync = "Unsynchronised" } ]\n', 2,
                                                 'StaticHeap: sync = "Unsynchronised"'),
    "no lock, and threads whose records come from below": ('layers = [ "DelayedFree", "Tlsf",\n { layer = "StaticHeap", bytes = 65536, sync = "Unsynchronised" } ]\n', 2,
                                                           'StaticHeap: sync = "Unsynchronised"'),
    "a rule of a layer's own": ('layers = [\n  "Tlsf",\n  { layer = "StaticHeap", bytes = 5000 } ]\n', 3, "the array is a number of whole granules"),
    "a name that is no word": ('name = "my allocator"\nlayers = [ "Tlsf", "MmapHeap" ]\n', 1, 'name = "my allocator": expected a word'),
    "a name that is taken": ('name = "tlsf"\nlayers = [ "Tlsf", "MmapHeap" ]\n', 1,
                             'name = "tlsf": an allocator that ships has this name: expected another one, such as "my_tlsf"'),
    "a name that is a keyword": ('layers = [ "Tlsf", "MmapHeap" ]\nname = "int"\n', 2, 'name = "int": C++ has taken this word: expected another one'),
    "a name that is a macro": ('name = "errno"\nlayers = [ "Tlsf", "MmapHeap" ]\n', 1, 'name = "errno": C++ has taken this word'),
    "a name that is too long": (f'name = "{"x" * 32}"\nlayers = [ "Tlsf", "MmapHeap" ]\n', 1, "expected a word of at most 31 small letters"),
    "nothing": ("# not yet\n", 1, "layers: expected a list"),
    "no layers": ('name = "x"\nlayers = []\n', 2, "layers: expected a list"),
    "a layer that is a number": ('layers = [\n  7,\n  "MmapHeap" ]\n', 2, '7: expected a layer, as "Slab"'),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_compositions_are_refused_in_one_line(mortise, tmp_path, what):
    text, line, said = BROKEN[what]
    spec = tmp_path / "broken.toml"
    spec.write_text(text)
    done = mortise("build", spec, "-o", tmp_path / "x.so")
    assert done.status == 2 and not (tmp_path / "x.so").exists()
    assert re.fullmatch(r"mortise: [^\n]+\n", done.err), done.err
    assert done.err.startswith(f"mortise: {spec}:{line}: ") and said in done.err, done.err


# What is wrong with a layer of one's own: what to replace in the example, by what, and the refusal. {spec} and {header} are its files.
OWN = {
    "a header that is not there": (("poisoned.toml", "poison_on_free.hpp", "none.hpp"), "{spec}:4: cannot read 'none.hpp': No such file or directory"),
    "no list of headers": (("poisoned.toml", '["poison_on_free.hpp"]', '"poison_on_free.hpp"'), "{spec}:4: headers = \"poison_on_free.hpp\": expected a list of files"),
    "the same header twice": (("poisoned.toml", '["poison_on_free.hpp"]', '["poison_on_free.hpp", "poison_on_free.hpp"]'), "'PoisonOnFree' has the name of another one"),
    "a name that is taken": (("poison_on_free.hpp", '"PoisonOnFree"', '"Slab"'), "{spec}:4: 'poison_on_free.hpp': its layer 'Slab' has the name of another one"),
    "no name": (("poison_on_free.hpp", "kName =", "kNam ="), "{spec}:4: 'poison_on_free.hpp': no layer in it: expected a class with kName and kWhat"),
    "a parameter of its own out of range": (("poisoned.toml", "239", "256"), "{spec}:6: PoisonOnFree: byte = 256 is out of range: expected 0..255"),
    "what it needs is not below": (("poison_on_free.hpp", "mortise::Locates", "mortise::Marked"), "{spec}:6: PoisonOnFree does not fit on 'Aligned': it needs a heap below"),
    "a verb that may throw": (("poison_on_free.hpp", "Block b) noexcept", "Block b)"), "{spec}:6: a layer's Over has a public void release(Thread&, Block) noexcept"),
    "a word that C++ does not know": (("poison_on_free.hpp", "std::memset", "std::memst"), "{spec}: 'memst' is not a member of 'std'; did you mean 'memset'? ({header}:25"),
}


@pytest.mark.parametrize("what", OWN)
def test_a_layer_of_ones_own_that_is_wrong_is_refused_in_one_line(mortise, tmp_path, what):
    (file, old, new), said = OWN[what]
    for name in ("poisoned.toml", "poison_on_free.hpp"):
        text = (ROOT / "examples" / name).read_text()
        assert file != name or old in text
        (tmp_path / name).write_text(text.replace(old, new) if file == name else text)
    spec = tmp_path / "poisoned.toml"
    done = mortise("build", spec, "-o", tmp_path / "x.so")
    assert done.status == 2 and re.fullmatch(r"mortise: [^\n]+\n", done.err), done.err
    assert said.format(spec=spec, header=tmp_path / "poison_on_free.hpp") in done.err, done.err


@pytest.mark.parametrize("words, said", (
    (["none.toml"], "cannot read 'none.toml': No such file"),
    (["good.toml", "-o", "x.dll"], "expected a name that ends in .so or .a"),
    (["good.toml", "-o", "none/x.so"], "cannot write 'none/x.so'"),
    (["good.toml", "-o", "x.so", "--compiler", "no-such-compiler"], "cannot run 'no-such-compiler'"),
    (["good.toml", "-o", "x.so", "--freestanding"], "--freestanding makes a static library"),
))
def test_wrong_words(mortise, tmp_path, words, said):
    (tmp_path / "good.toml").write_text('layers = [ "Tlsf", "MmapHeap" ]\n')
    done = mortise("build", *words, cwd=tmp_path)
    assert done.status == 2 and said in done.err and done.err.count("\n") == 1, done.err


@pytest.mark.parametrize("text", (f"slots = {'9' * 5000}\n", f"layers = {'[' * 3000}{']' * 3000}\n"), ids=("digits", "brackets"))
def test_what_no_reader_of_toml_takes(mortise, tmp_path, text):
    (tmp_path / "odd.toml").write_text(text)
    done = mortise("build", "odd.toml", "-o", "x.so", cwd=tmp_path)
    assert done.status == 2 and re.fullmatch(r"mortise: odd\.toml: no composition has this: [^\n]+\n", done.err), done.err


def test_a_cache_that_cannot_be_used(mortise, tmp_path):
    """As for a service, or in a container, whose home is nobody's."""
    spec = tmp_path / "good.toml"
    spec.write_text('layers = [ "Tlsf", "MmapHeap" ]\n')
    done = mortise("run", "--alloc", spec, "--", "true", env={"XDG_CACHE_HOME": str(spec)})
    assert done.status == 2 and done.err.count("\n") == 1, done.err
    assert done.err.startswith(f"mortise: cannot keep the built library in '{spec}/mortise/") and "set XDG_CACHE_HOME to" in done.err


def test_a_full_disk_leaves_no_part_of_a_library(tmp_path, monkeypatch):
    def full(_, target, **more):
        Path(target).write_bytes(b"")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spec = tmp_path / "good.toml"
    spec.write_text('layers = [ "Tlsf", "MmapHeap" ]\n')
    monkeypatch.setenv("MORTISE_HOME", str(BUILD))
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(WrongUse, match="cannot write '.*x.so': No space left on device"):
        building.build(spec, building.Wanted(tmp_path / "x.so"))
    assert list(tmp_path.iterdir()) == [spec]


def test_what_is_no_library_of_ours(mortise, tmp_path):
    done = mortise("explain", "/bin/true.so")
    assert done.status == 2 and "cannot read '/bin/true.so'" in done.err
    (tmp_path / "text.so").write_text("not a library")
    done = mortise("explain", tmp_path / "text.so")
    assert done.status == 2 and "is no library" in done.err
