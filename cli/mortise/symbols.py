"""Names for places in machine code, asked of binutils' addr2line once everything has ended, and for variables."""

import bisect
import math
import re
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

Names = tuple[str | None, str | None]  # function and file:line, as far as the module tells
known: dict[tuple[str, int], Names] = {}


def look_up(module: str, offsets: Iterable[int]) -> None:
    """Asks for many places at once: for each question addr2line reads all that the module says. Of functions that were inlined at a place it
    is the innermost that the C++ library's headers do not have: who makes a string wants to know where, not how.
    """
    wanted = sorted({offset for offset in offsets if (module, offset) not in known})
    if not wanted:
        return
    try:
        done = subprocess.run(
            ["addr2line", "-a", "-i", "-f", "-C", "-e", module],
            input="".join(f"{max(offset - 1, 0):#x}\n" for offset in wanted),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=120,
        )
        answers = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
    except (OSError, subprocess.TimeoutExpired):
        answers = []
    for n, offset in enumerate(wanted):
        lines = [*(answers[n] if n < len(answers) else "").splitlines(), "", ""]
        frames = list(zip(lines[::2], lines[1::2], strict=False))
        function, source = next((frame for frame in frames[:-1] if "/include/c++/" not in frame[1]), frames[0])
        function, source = function.strip(), source.strip().split(" (")[0]
        is_told = source and not source.startswith("??") and not source.endswith((":?", ":0"))
        is_named = function not in ("", "??") and (is_told or is_within(module, max(offset - 1, 0)))
        known[module, offset] = function if is_named else None, source if is_told else None


def is_within(module: str, offset: int) -> bool:
    """Whether a function that the module names reaches so far. Of a stripped one addr2line takes the last name before, whatever follows it."""
    functions = exported(module)
    n = bisect.bisect_right(functions, (offset, math.inf)) if functions is not None else 0
    return functions is None or (n > 0 and offset < functions[n - 1][1])


@lru_cache(maxsize=64)
def exported(module: str) -> list[tuple[int, float]] | None:
    """From where to where the functions of a stripped module go that it names to others, in order; None of one that has all of its names."""
    try:
        with open(module, "rb") as file:
            if ELFFile(file).get_section_by_name(".symtab"):
                return None
        listed = subprocess.run(["nm", "-D", "-S", "--defined-only", module], capture_output=True, text=True, errors="replace", check=False, timeout=120)
    except (OSError, ELFError, subprocess.TimeoutExpired):
        return None
    lines = (line.split() for line in listed.stdout.splitlines())
    return sorted((int(w[0], 16), int(w[0], 16) + int(w[1], 16)) for w in lines if len(w) == 4 and w[2] in "TtWwiu")


def named(module: str, offset: int) -> Names:
    """Function and file:line of a return address; None for what the module does not tell. The call itself lies just before."""
    look_up(module, [offset])
    return known[module, offset]


@lru_cache(maxsize=64)
def variables(module: str) -> tuple[tuple[int, int, str], ...]:
    """First and last byte and name of each variable of a module, as distances from where it is loaded: of its symbol table, which names
    those of one source file too, or where that was stripped of the dynamic one.
    """
    try:
        with open(module, "rb") as file:
            elf = ELFFile(file)
            loaded = [segment["p_vaddr"] & ~0xFFF for segment in elf.iter_segments("PT_LOAD")]
            table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
            if not loaded or not isinstance(table, SymbolTableSection):
                return ()
            found = [s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_OBJECT" and s["st_size"] and s["st_shndx"] != "SHN_UNDEF"]
    except (OSError, ELFError):
        return ()
    starts = [s["st_value"] - min(loaded) for s in found]
    names = as_written([s.name for s in found])
    return tuple((start, start + s["st_size"] - 1, name) for start, s, name in zip(starts, found, names, strict=True))


def as_written(names: list[str]) -> list[str]:
    """The names of C++ as its source has them, by binutils' c++filt where that is installed."""
    mangled = [name for name in names if name.startswith("_Z")]
    if not mangled:
        return names
    try:
        done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return names
    known = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return [known.get(name, name) for name in names]


def variable(module: str, distance: int) -> str | None:
    """The variable, and how far behind its first byte, that lies so far behind where the module is loaded."""
    for first, last, name in variables(module):
        if first <= distance <= last:
            return f"{name}+{distance - first}" if distance > first else name
    return None


def place(module: str, offset: int) -> dict[str, Any]:
    symbol, source = named(module, offset) if module != "?" else (None, None)
    return {"module": module, "offset": offset, "symbol": symbol, "source": source}


def words(where: dict[str, Any]) -> str:
    """`main (prog.c:12)`, or as much of it as is known."""
    module = "unknown" if where["module"] == "?" else f"{Path(where['module']).name}+{where['offset']:#x}"
    source = "/".join(Path(where["source"]).parts[-2:]) if where["source"] else module
    return f"{where['symbol']} ({source})" if where["symbol"] else source
