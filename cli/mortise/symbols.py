"""Names for places in machine code, asked of binutils' addr2line once everything has ended, and for variables."""

import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection


@lru_cache(maxsize=4096)
def named(module: str, offset: int) -> tuple[str | None, str | None]:
    """Function and file:line of a return address; None for what the module does not tell. The call itself lies just before. Of functions that
    were inlined there it is the innermost that the C++ library's headers do not have: who makes a string wants to know where, not how.
    """
    try:
        done = subprocess.run(
            ["addr2line", "-i", "-f", "-C", "-e", module, hex(max(offset - 1, 0))],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    lines = [*done.stdout.splitlines(), "", ""]
    frames = list(zip(lines[::2], lines[1::2], strict=False))
    function, source = next((frame for frame in frames[:-1] if "/include/c++/" not in frame[1]), frames[0])
    function, source = function.strip(), source.strip().split(" (")[0]
    known = source and not source.startswith("??") and not source.endswith((":?", ":0"))
    return (None if function in ("", "??") else function), (source if known else None)


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
            return tuple(
                (s["st_value"] - min(loaded), s["st_value"] - min(loaded) + s["st_size"] - 1, s.name)
                for s in table.iter_symbols()
                if s["st_info"]["type"] == "STT_OBJECT" and s["st_size"] and s["st_shndx"] != "SHN_UNDEF"
            )
    except (OSError, ELFError):
        return ()


def place(module: str, offset: int) -> dict[str, Any]:
    symbol, source = named(module, offset) if module != "?" else (None, None)
    return {"module": module, "offset": offset, "symbol": symbol, "source": source}


def words(where: dict[str, Any]) -> str:
    """`main (prog.c:12)`, or as much of it as is known."""
    module = "unknown" if where["module"] == "?" else f"{Path(where['module']).name}+{where['offset']:#x}"
    source = "/".join(Path(where["source"]).parts[-2:]) if where["source"] else module
    return f"{where['symbol']} ({source})" if where["symbol"] else source
