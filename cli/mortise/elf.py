"""What a program file says about itself: enough to know whether another allocator can serve it."""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashTable
from elftools.elf.sections import Symbol

from mortise.errors import CannotWork, WrongUse


@dataclass
class Image:
    """The facts of one ELF file that decide how it meets an allocator."""

    path: Path
    machine: str
    bits: int
    interpreter: str | None = None
    dynamic: bool = False
    is_program: bool = False  # says so itself; without, a program that may lie anywhere looks like a library
    needed: list[str] = field(default_factory=list)
    search: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    weak: set[str] = field(default_factory=set)  # of the imports those that may stay without a definition
    own: set[str] = field(default_factory=set)  # of the names in WATCHED


DF_1_PIE = 0x08000000
# Exports that somebody asks for.
WATCHED = ("malloc", "free", "mortise_descriptor", "__asan_init", "__tsan_init", "__msan_init", "__hwasan_init")


def resolve(program: str) -> Path:
    """The file that the shell would run for this word."""
    if "/" in program:
        path = Path(program)
        if not path.exists():
            raise WrongUse(f"no such program '{program}': expected a path to a file, or a name on PATH")
        if path.is_dir() or not os.access(path, os.X_OK):
            raise WrongUse(f"'{program}' cannot be executed: expected a program file with execute permission")
        return path.absolute()
    found = shutil.which(program)
    if found is None:
        raise WrongUse(f"no program '{program}' on PATH: check the spelling, install it, or give its path")
    return Path(found).absolute()


def same_machine(one: Image, other: Image) -> bool:
    return (one.machine, one.bits) == (other.machine, other.bits)


def is_shared_object(path: Path) -> bool:
    """Whether a loader could map this file into another program: by its ELF type, which position-independent programs have as well."""
    with path.open("rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\x03\x00", b"\x00\x03")


def interpreter_of(script: Path) -> list[str] | None:
    """The words behind `#!`, with `env` taken away; None for anything that is not a script."""
    with script.open("rb") as file:
        head = file.read(512)
    if not head.startswith(b"#!"):
        return None
    words = [word for word in re.split("[ \t]+", head[2:].split(b"\n", 1)[0].decode(errors="replace")) if word]
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words or None


def program_image(path: Path) -> tuple[Image, Path]:
    """The image that will really run: for a script, that of its interpreter (followed at most four times)."""
    for _ in range(4):
        try:
            words = interpreter_of(path)
        except OSError as e:
            raise WrongUse(f"cannot read '{path}': {e.strerror}") from None
        if words is None:
            return image(path), path
        try:
            path = resolve(words[0])
        except WrongUse:
            if words[0].endswith("\r"):
                raise WrongUse(f"the lines of '{path}' end in CR and LF, and the CR belongs to its interpreter's name: "
                               "expected lines that end in LF; 'sed -i s/\\r$//' makes them so") from None
            raise WrongUse(f"interpreter '{words[0]}' of '{path}' is missing or cannot be executed: expected a program behind '#!' "
                           "in the script's first line; correct that, or give the interpreter and the script") from None
    raise CannotWork(f"'{path}' is a script of a script of a script: give the interpreter itself")


@lru_cache(maxsize=512)
def image(path: Path) -> Image:
    try:
        with path.open("rb") as file:
            return _read(path, ELFFile(file))
    except OSError as e:
        raise WrongUse(f"cannot read '{path}': {e.strerror}") from None
    except ELFError:
        raise CannotWork(
            f"'{path}' is neither a Linux program nor a script with '#!': it cannot be run on another allocator"
        ) from None


def _read(path: Path, elf: ELFFile) -> Image:
    found = Image(path, elf["e_machine"], elf.elfclass)
    for segment in elf.iter_segments():
        if segment["p_type"] == "PT_INTERP":
            found.interpreter = segment.get_interp_name()
        elif isinstance(segment, DynamicSegment):
            found.dynamic = True
            for tag in segment.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    found.needed.append(tag.needed)
                elif tag.entry.d_tag == "DT_FLAGS_1":
                    found.is_program = bool(tag.entry.d_val & DF_1_PIE)
                elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                    origin = str(path.resolve().parent)
                    text = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
                    found.search += [
                        p.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for p in text.split(":")
                    ]
            _symbols(found, elf, segment)
    return found


def _symbols(found: Image, elf: ELFFile, segment: DynamicSegment) -> None:
    """Imports come first in a dynamic symbol table, and the GNU hash finds an export without reading them all."""
    section = next((s for s in elf.iter_sections() if isinstance(s, DynamicSection)), None)
    dynsym = elf.get_section_by_name(".dynsym")
    if section is None or dynsym is None:
        for symbol in segment.iter_symbols():
            if symbol["st_shndx"] == "SHN_UNDEF":
                _import(found, symbol)
            elif symbol.name in WATCHED:
                found.own.add(symbol.name)
        return
    hashed = elf.get_section_by_name(".gnu.hash")
    first = dynsym.num_symbols()
    if hashed is not None:
        table = GNUHashTable(elf, hashed["sh_offset"], dynsym)
        first = min(first, table.params["symoffset"])
        found.own = {
            name for name in WATCHED if (s := table.get_symbol(name)) is not None and s["st_shndx"] != "SHN_UNDEF"
        }
    for index in range(first):
        symbol = dynsym.get_symbol(index)
        if symbol["st_shndx"] == "SHN_UNDEF":
            _import(found, symbol)
        elif symbol.name in WATCHED:
            found.own.add(symbol.name)


def _import(found: Image, symbol: Symbol) -> None:
    found.imports.add(symbol.name)
    if symbol["st_info"]["bind"] == "STB_WEAK":
        found.weak.add(symbol.name)


def defined(path: Path, names: Iterable[str]) -> set[str]:
    """Which of these names a file that was not stripped has for code of its own. Its strings say whether it is worth a look at each of the
    symbols, of which there may be a million.
    """
    with path.open("rb") as file:
        elf = ELFFile(file)
        table, strings = elf.get_section_by_name(".symtab"), elf.get_section_by_name(".strtab")
        if table is None or strings is None or elf.elfclass != 64:
            return set()
        text = strings.data()
        # One string may be the end of another, so a name can begin at several places.
        at = {found.start(): name for name in names for found in re.finditer(re.escape(name.encode()) + b"\0", text)}
        order = "<" if elf.little_endian else ">"
        symbols = struct.iter_unpack(f"{order}IBBHQQ", table.data()) if at else ()
        return {at[name] for name, _, _, section, _, _ in symbols if section and name in at}


@lru_cache(maxsize=1)
def loader_cache() -> dict[str, str]:
    """Library names that the loader's cache knows, each with its first path for this machine."""
    tool = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        text = subprocess.run([tool, "-p"], capture_output=True, text=True, errors="surrogateescape", check=False).stdout
    except OSError:
        return {}
    known: dict[str, str] = {}
    for name, facts, path in re.findall(r"^\s+(\S+) \((.*?)\) => (\S+)$", text, re.M):
        if "x32" not in facts and ("64" in facts or os.uname().machine not in ("x86_64", "aarch64")):
            known.setdefault(name, path)
    return known


def libraries(start: Image) -> list[Image]:
    """Every library that will be loaded with the program, as far as the files tell, in the order the loader finds
    them.
    """
    seen: dict[str, Image] = {}
    queue = [(name, start) for name in start.needed]
    while queue:
        name, wanted_by = queue.pop(0)
        if name in seen:
            continue
        path = _locate(name, wanted_by.search + start.search)
        if path is None:
            continue
        try:
            seen[name] = image(path)
        except (WrongUse, CannotWork):
            continue
        queue += [(further, seen[name]) for further in seen[name].needed]
    return list(seen.values())


def _locate(name: str, folders: list[str]) -> Path | None:
    if "/" in name:
        return Path(name) if Path(name).exists() else None
    named = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    for folder in folders + named:
        if (Path(folder) / name).exists():
            return Path(folder) / name
    if name in loader_cache():
        return Path(loader_cache()[name])
    for folder in (
        f"/lib/{os.uname().machine}-linux-gnu",
        f"/usr/lib/{os.uname().machine}-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ):
        if (Path(folder) / name).exists():
            return Path(folder) / name
    return None
