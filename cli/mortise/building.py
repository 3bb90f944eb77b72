"""A composition made into a library: a generated header, the compiler, the linker.

The header is checked first; then the files of the malloc interface (or, for a static library, of the C interface) are
compiled with it, as the build does for the allocators that ship; the description that `mortise explain` reads is made
beside them and put into the library.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import complaints, composition, kit
from mortise.composition import Composition, Placed
from mortise.errors import WrongUse
from mortise.headers import Catalogue

SECTION = ".mortise.allocator"  # of a built library: its description, not loaded
NOT_IN_C = ("malloc", "new", "front", "next", "stats")  # what serves malloc's own names; a static library has abi/library.cpp
BARE_FILES = ["library", "bare"]


@dataclass(frozen=True)
class Wanted:
    """What to make of a composition."""

    output: Path
    compiler: str | None = None
    flags: list[str] = field(default_factory=list)
    freestanding: bool = False

    @property
    def is_static(self) -> bool:
        return self.output.suffix == ".a"


def build(spec: Path, wanted: Wanted) -> Composition:
    """Reads, checks, compiles; leaves the library (and the C header of a static one) at `wanted.output`."""
    parts = kit.kit()
    made = composition.read(spec, Catalogue(parts.include))
    if not wanted.is_static:
        demand_own_name(made)
        demand_locks(made)
    with tempfile.TemporaryDirectory(prefix="mortise-build-") as folder:
        room = Path(folder)
        (room / "composition.hpp").write_text(header_of(made, wanted), encoding="utf-8")
        check(parts, made, wanted, room)
        if not wanted.is_static:
            demand_alignment(made)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as cores:
            described = cores.submit(describe, parts, made, room)
            code = list(cores.map(lambda name: compile_file(parts, made, wanted, room, name), files_of(parts, wanted)))
            description = described.result()
        target = pack(made, wanted, room, code) if wanted.is_static else link(parts, wanted, room, code)
        if not wanted.is_static:
            demand_memory(made, target)
        put_in(room, target, description)
        try:
            if wanted.is_static:
                target.with_suffix(".h").write_text(c_header(made, wanted, description), encoding="utf-8")
                place(target.with_suffix(".h"), wanted.output.with_suffix(".h"))
            else:
                target.chmod(0o755)
            place(target, wanted.output)
        except OSError as e:
            raise WrongUse(f"cannot write '{wanted.output}': {e.strerror}; name a file in a folder that can be written") from None
    return made


def demand_own_name(made: Composition) -> None:
    """What a library says of itself, its statistics and its reports of faults, tells allocators apart by their names."""
    from mortise import catalogue

    if made.name in {a.name for a in catalogue.allocators()}:
        raise WrongUse(f'{made.path}:{made.line}: name = "{made.name}": an allocator that ships has this name: expected another one, such as "my_{made.name}"')


def demand_locks(made: Composition) -> None:
    """Who calls malloc is any thread, and the library has one of its own that gives memory back."""
    if found := composition.without_lock(made.layers):
        p, slot = found
        raise WrongUse(f"{made.path}:{p.line}: {p.entry.name}: {slot} = \"{composition.FREE}\": threads call malloc at once, and nothing keeps them apart here: "
                       f'expected a lock, such as {slot} = "FutexLock" (a static library, .a, may be for one thread)')


def demand_alignment(made: Composition) -> None:
    """A program cannot do without aligned_alloc, nor C++ without its operators for types that are aligned."""
    if p := composition.without_alignment(made.layers):
        raise WrongUse(f"{made.path}:{p.line}: {p.entry.name} aligns blocks to 16 bytes, and aligned_alloc of more would give NULL here: "
                       "put Aligned above it, over its caches and below the guards")


ONE_BLOCK = """
import ctypes, sys
try:
    malloc = ctypes.CDLL(sys.argv[1]).malloc
except OSError:
    sys.exit()  # for another machine
malloc.restype = ctypes.c_void_p
sys.exit(0 if malloc(100) else 3)
"""


def demand_memory(made: Composition, library: Path) -> None:
    """A heap whose tables do not fit into its source cannot start, and serves nobody."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith("MORTISE_")}
    if subprocess.run([sys.executable, "-I", "-c", ONE_BLOCK, str(library)], env=bare, capture_output=True).returncode == 3:
        source = made.layers[-1]
        raise WrongUse(f"{made.path}:{source.line}: {source.entry.name} has no room for the tables of the layers above it, and malloc would give NULL, always: "
                       "expected a larger one, or larger granules")


def place(made: Path, output: Path) -> None:
    """Copies beside the output and renames: a full disk leaves no part of a file, and a program that runs on the old one keeps it."""
    goal = output.resolve()
    fresh = goal.with_name(f".{goal.name}.{os.getpid()}")
    try:
        shutil.copy(made, fresh)
        fresh.replace(goal)
    finally:
        fresh.unlink(missing_ok=True)


def cached(spec: Path) -> Path:
    """The library of a composition that is to be run right now: built once for each content of it and of the headers."""
    parts = kit.kit()
    made = composition.read(spec, Catalogue(parts.include))
    mark = hashlib.sha256(header_of(made, Wanted(Path("x.so"))).encode())
    for path in made.own:
        mark.update(path.read_bytes())
    for folder in (parts.include / "mortise", parts.sources / "abi", parts.generated):
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in (".hpp", ".cpp", ".inc", ".map"):
                mark.update(path.read_bytes())
    mark.update(json.dumps([parts.compiler, parts.compile, parts.options, parts.link]).encode())
    library = caches() / mark.hexdigest()[:20] / f"libmortise-{made.name}.so"
    try:
        if library.is_file():
            return library
        library.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(library.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as e:
        raise WrongUse(f"cannot keep the built library in '{library.parent}': {e.strerror}; "
                       "set XDG_CACHE_HOME to a folder that can be written") from None
    build(spec, Wanted(library))
    return library


def caches() -> Path:
    """The folder for libraries of compositions that were run without being built first."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mortise"
    except RuntimeError:
        raise WrongUse("no folder to keep the built library in: this user has no home; set XDG_CACHE_HOME to a folder that can be written") from None


def description_in(library: Path) -> dict[str, Any] | None:
    """The description that `build` put into a library; None when there is none."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with library.open("rb") as f:
            section = ELFFile(f).get_section_by_name(SECTION)
            return json.loads(section.data()) if section else None
    except OSError as e:
        raise WrongUse(f"cannot read '{library}': {e.strerror}") from None
    except ELFError:
        raise WrongUse(f"'{library}' is no library: expected a .so that 'mortise build' made, or a .toml") from None


# -- the generated header


def header_of(made: Composition, wanted: Wanted) -> str:
    """The composition as a header: checks from the bottom up, each at its line of the TOML, then the allocator's card."""
    includes = "".join(f'#include "{h}"\n' for h in ["mortise/core/core.hpp", "mortise/core/stack.hpp", *made.headers])
    out = [f"// Generated by 'mortise build' from {made.path.name}.\n#pragma once\n\n{includes}\nnamespace mortise {{\nnamespace composed {{\n"
           "template <class Source> concept CallsMalloc = requires { requires Source::kCallsMalloc; };\n"
           "template <class Source> concept ToldByProgram = requires { requires Source::kToldByProgram; };\n"
           "template <std::size_t kRoute, std::size_t kServed, bool kGap = (kRoute > kServed)> struct NothingServes;\n"
           "template <std::size_t kRoute, std::size_t kServed> struct NothingServes<kRoute, kServed, false> {};\n"]
    top = fold(made, made.layers, None, "", out)
    at_top = at(made, made.layers[0])
    out.append(f'{at_top}static_assert(Locates<{top}>, "no layer finds a block by its pointer, which free() needs: '
               'add PageIndex, or SizedHeader, or a backbone with tags");\n')
    sources = [p for p in made.entries() if p.entry.family == "source"]
    if not wanted.is_static and (slab := composition.without_route(made.layers)):
        out.append(f"{at(made, slab)}static_assert(sizeof(NothingServes<~std::size_t{{0}}, {slab.arguments[0]}::kMaxBytes>) > 0);\n")
    for source in sources:
        out.append(f"{at(made, source)}static_assert(!ToldByProgram<{source.cpp}>, "
                   f'"{source.entry.name} has no memory before a program in C++ tells it of some: choose another source");\n')
        if not wanted.is_static:
            out.append(f"{at(made, source)}static_assert(!CallsMalloc<{source.cpp}>, "
                       f'"{source.entry.name} calls the malloc that this library replaces: choose another source");\n')
    if wanted.freestanding:
        out.append(f'{at_top}static_assert(std::is_empty_v<typename {top}::Thread> && !Attaches<{top}>, '
                   '"without an operating system nothing is kept for a thread: leave ThreadCache and CoreCache out");\n')
    layers = ", ".join(p.cpp for p in made.layers)
    out.append(f"""}}  // namespace composed

namespace allocators {{
struct {made.name} {{
  using List = Layers<{layers}>;
  using Heap = Stack<List>;
  static constexpr const char* kName = "{made.name}";
  static constexpr const char* kSummary = "{made.summary}";
  static constexpr const char* kUse = "{made.use}";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;
}};
}}  // namespace allocators
}}  // namespace mortise
""")
    return "".join(out)


def at(made: Composition, p: Placed) -> str:
    file = str(made.path).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {p.line} "{file}"\n'


def fold(made: Composition, layers: list[Placed], below: str | None, under: str, out: list[str]) -> str:
    """Writes the checks of a list that stands on the heap `below`; returns the name of the heap on top."""
    for p in reversed(layers):
        name = f"Heap{sum('using Heap' in line for line in out)}"
        if below is None:
            out.append(f"{at(made, p)}using {name} = {p.cpp};\n")
        else:
            inner = ""
            if p.inside:
                inner = fold(made, p.inside, None if p.entry.holds_a_stack else below, under, out)
                name = f"Heap{sum('using Heap' in line for line in out)}"
            why = f"{p.entry.name} does not fit on {under}: it needs {p.entry.needs or 'another layer below'}"
            out.append(f'{at(made, p)}static_assert(FitsOn<{p.cpp}, {below}>, "{why}");\n')
            out.append(f"{at(made, p)}using {name} = {p.cpp}::Over<{below}>;\n")
            out.append(f"{at(made, p)}static_assert(sizeof(detail::Makes<{p.cpp}, {name}>) > 0);\n")
            if composition.leaves_large_to_route(p, made.layers):
                out.append(f"{at(made, p)}static_assert(sizeof(NothingServes<{p.arguments[0]}::kLimit, {inner}::Classes::kMaxBytes>) > 0);\n")
        out.append(f'{at(made, p)}static_assert(sizeof({name}) > 0 && Heap<{name}>, "{p.entry.name} is no heap here");\n')
        below, under = name, f"'{p.entry.name}'"
    return below or ""


def facts(parts: kit.Kit, made: Composition) -> list[str]:
    return ['-DMORTISE_HEADER="composition.hpp"', f"-DMORTISE_ALLOCATOR={made.name}", f'-DMORTISE_VERSION="{parts.version}"']


def paths(parts: kit.Kit, room: Path) -> list[str]:
    return [f"-I{room}", f"-I{parts.include}", f"-I{parts.sources}", f"-I{parts.generated}"]


def files_of(parts: kit.Kit, wanted: Wanted) -> list[str]:
    if not wanted.is_static:
        return parts.files
    return BARE_FILES if wanted.freestanding else ["library", *(f for f in parts.files if f not in NOT_IN_C)]


def compiling(parts: kit.Kit, made: Composition, wanted: Wanted, room: Path, name: str = "") -> list[str]:
    special = ["-ffreestanding", "-fno-asynchronous-unwind-tables"] if wanted.freestanding else []
    compiler = wanted.compiler or parts.compiler
    first_error = "-ferror-limit=1" if "clang" in compiler else "-fmax-errors=1"
    file = f'-DMORTISE_FILE="{wanted.output.name}"'
    return [compiler, *parts.compile, *parts.options.get(name, []), *special, *wanted.flags, first_error, *facts(parts, made), file, *paths(parts, room)]


def check(parts: kit.Kit, made: Composition, wanted: Wanted, room: Path) -> None:
    """Whether the layers fit, before anything is made of them."""
    unit = room / "check.cpp"
    unit.write_text('#include "composition.hpp"\n', encoding="utf-8")
    run([*compiling(parts, made, wanted, room), "-fsyntax-only", str(unit)], made)


def compile_file(parts: kit.Kit, made: Composition, wanted: Wanted, room: Path, name: str) -> Path:
    code = room / f"{name}.o"
    run([*compiling(parts, made, wanted, room, name), "-c", str(parts.sources / f"abi/{name}.cpp"), "-o", str(code)], made)
    return code


def describe(parts: kit.Kit, made: Composition, room: Path) -> str:
    """Compiled for this machine and run here, whatever machine the library is for."""
    program = room / "describe"
    command = [parts.compiler, "-std=c++20", "-O0", "-w", *facts(parts, made), *paths(parts, room),
               str(parts.sources / "abi/describe.cpp"), "-o", str(program)]
    run(command, made)
    return subprocess.run([str(program)], text=True, capture_output=True, check=True).stdout


def link(parts: kit.Kit, wanted: Wanted, room: Path, code: list[Path]) -> Path:
    target = room / "library.so"
    run([wanted.compiler or parts.compiler, "-shared", *wanted.flags, *map(str, code), "-o", str(target), f"-Wl,-soname,{wanted.output.name}",
         f"-Wl,--version-script={parts.generated / 'exports.map'}", *parts.link, *parts.libraries], None)
    return target


def pack(made: Composition, wanted: Wanted, room: Path, code: list[Path]) -> Path:
    """One object in which only the C interface is global, so that several such libraries go into one program."""
    whole, target = room / f"{made.name}.o", room / "library.a"
    run([beside(wanted.compiler, "ld"), "-r", "--force-group-allocation", *map(str, code), "-o", str(whole)], None)
    run([beside(wanted.compiler, "objcopy"), "--wildcard", "--weaken-symbol=_ZN7mortise*", str(whole)], None)  # objcopy keeps unique symbols
    run([beside(wanted.compiler, "objcopy"), "--wildcard", f"--keep-global-symbol={made.name}_*", str(whole)], None)
    run([beside(wanted.compiler, "ar"), "rcsD", str(target), str(whole)], None)
    return target


def beside(compiler: str | None, tool: str) -> str:
    """The binutil that belongs to a compiler: aarch64-linux-gnu-ld to aarch64-linux-gnu-g++."""
    own = re.sub(r"(g\+\+|c\+\+|clang\+\+)[-\d.]*$", tool, compiler or "")
    return own if own != compiler and shutil.which(own) else tool


def put_in(room: Path, target: Path, description: str) -> None:
    if target.suffix != ".so":
        return  # an archive's members are code; its header says what it is
    text = room / "description.json"
    text.write_text(description, encoding="utf-8")
    run(["objcopy", "--add-section", f"{SECTION}={text}", "--set-section-flags", f"{SECTION}=noload,readonly", str(target)], None)


def run(command: list[str], made: Composition | None) -> None:
    try:
        done = subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"LC_ALL": "C"})
    except OSError as e:
        raise WrongUse(f"cannot run '{command[0]}': {e.strerror}; 'mortise build' needs a C++20 compiler and binutils "
                       "(Debian: g++), or --compiler") from None
    if done.returncode:
        raise WrongUse(complaints.verdict(done.stdout, made) if made else complaints.tail(command[0], done.stdout))


# -- for C


def c_header(made: Composition, wanted: Wanted, description: str) -> str:
    told = json.loads(description)
    n, guard = made.name, f"MORTISE_{made.name.upper()}_H"
    steps = ", ".join(f"{step} {told['progress'][step].replace('_', '-')}" for step in ("hit", "refill", "grow"))
    fault = f"""
/* Called when the program misused the heap: what it did (such as "double_free") and the pointer. Must not return.
   Define it yourself; without one the processor traps. */
void {n}_on_fault(const char* fault, void* p);
""" if wanted.freestanding else ""
    return f"""/* {n}: {told['summary']}. Generated by 'mortise build' from {made.path.name}.
   A heap of its own beside the program's malloc. Every function may be called from any thread where the composition
   has a lock; progress: {steps}. */
#ifndef {guard}
#define {guard}
#include <stddef.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* A block of at least `bytes`, aligned to 16; NULL without memory. errno is left alone. */
void* {n}_malloc(size_t bytes);
/* The same, reading as zero; NULL also when count * bytes overflows. */
void* {n}_calloc(size_t count, size_t bytes);
/* The block, larger or smaller, perhaps elsewhere; NULL without memory, and `p` stays. (NULL, n) is malloc, (p, 0) free. */
void* {n}_realloc(void* p, size_t bytes);
/* `align`: a power of two; NULL for others. */
void* {n}_aligned_alloc(size_t align, size_t bytes);
/* Takes a block of this heap back; NULL is ignored, other pointers are reported as a fault. */
void {n}_free(void* p);
/* What the block really holds. */
size_t {n}_usable_size(void* p);
/* Gives back what is kept for later; returns the bytes. */
size_t {n}_trim(void);
/* Bytes in blocks that the program holds, and bytes taken from the source. */
size_t {n}_live_bytes(void);
size_t {n}_mapped_bytes(void);
{fault}
#ifdef __cplusplus
}}
#endif
#endif
"""
