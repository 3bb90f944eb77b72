"""Names for places in machine code, asked of binutils' addr2line once everything has ended."""

import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=4096)
def named(module: str, offset: int) -> tuple[str | None, str | None]:
    """Function and file:line of a return address; None for what the module does not tell. The call itself lies just before."""
    try:
        done = subprocess.run(
            ["addr2line", "-f", "-C", "-e", module, hex(max(offset - 1, 0))],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    lines = [*done.stdout.splitlines(), "", ""]
    function, source = lines[0].strip(), lines[1].strip().split(" (")[0]
    known = source and not source.startswith("??") and not source.endswith((":?", ":0"))
    return (None if function in ("", "??") else function), (source if known else None)


def place(module: str, offset: int) -> dict[str, Any]:
    symbol, source = named(module, offset) if module != "?" else (None, None)
    return {"module": module, "offset": offset, "symbol": symbol, "source": source}


def words(where: dict[str, Any]) -> str:
    """`main (prog.c:12)`, or as much of it as is known."""
    module = "unknown" if where["module"] == "?" else f"{Path(where['module']).name}+{where['offset']:#x}"
    source = "/".join(Path(where["source"]).parts[-2:]) if where["source"] else module
    return f"{where['symbol']} ({source})" if where["symbol"] else source
