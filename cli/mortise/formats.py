"""The formats that leave the command line, in one place: their names, versions, units and how they are written."""

import contextlib
import json
import math
import os
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mortise.errors import WrongUse

ALLOCATOR = "mortise.allocator/1"
CONF = "mortise.conf/1"
COMPARE = "mortise.compare/1"
LIST = "mortise.list/1"
DOCTOR = "mortise.doctor/1"
THREADS = "mortise.threads/1"
PROCESS = "mortise.process/1"
LATENCY = "mortise.latency/1"
AFFINITY = "mortise.affinity/1"
PLAN = "mortise.plan/1"
CELL = "mortise.cell/1"
KIT = "mortise.kit/1"
LAYERS = "mortise.layers/1"
SPAN_MAX = 10_000 * 3600  # the kernel's waits and JSON's numbers end somewhere


def dumps(document: Any) -> str:
    """JSON as this project writes it: readable, keys in the order they were put, the same bytes for the same."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def encoded(text: str) -> bytes:
    """As UTF-8. A byte of the command line that was none stands in it as JSON escapes it, and is that byte again when it is read."""
    return text.encode("utf-8", "backslashreplace")


def load(path: Path, schema: str | None = None) -> Any:
    """A JSON document, refused in one line when it is unreadable, broken or of another schema."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise WrongUse(f"cannot read '{path}': {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise WrongUse(f"'{path}' is not JSON: {e}") from None
    got = document.get("schema") if isinstance(document, dict) else None
    if schema is not None and got != schema:
        raise WrongUse(f"'{path}' holds {got or 'no schema'} where {schema} was expected")
    return document


@contextlib.contextmanager
def whole(where: Path) -> Iterator[None]:
    """Around the use of what was loaded: a document of the right name from which something is gone is refused in one line."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as e:
        gone = f"it lacks {e}" if isinstance(e, KeyError) else str(e)
        raise WrongUse(f"'{where}' is not whole or was changed by hand ({gone}): expected a file as mortise wrote it") from e


def put_out(text: str) -> None:
    """A whole report on standard output: of a write that a full disk cuts short the rest is tried again, and then says so."""
    sys.stdout.flush()
    left = memoryview(encoded(text))
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:  # whoever shares the pipe wants no write of its own to wait
            select.select([], [1], [])


def check_writable(path: Path | None) -> None:
    """Finds out before minutes of measuring, not after, that a report cannot be written."""
    if path is None:
        return
    try:
        existed = path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if not existed:
            path.unlink()
    except OSError as e:
        raise WrongUse(
            f"cannot write the report '{path}': {e.strerror}; name a file in a folder that can be written"
        ) from None


def write(path: Path, text: str) -> None:
    try:
        path.write_bytes(encoded(text))
    except OSError as e:
        raise WrongUse(
            f"cannot write the report '{path}': {e.strerror}; name a file in a folder that can be written"
        ) from None


def seconds(value: float | None) -> str:
    """A time with three significant digits and its unit."""
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) < 5e-12:
        return "0 s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= scale:
            return f"{_three(value / scale)} {unit}"
    return f"{_three(value / 1e-9)} ns"


def size(value: float | None) -> str:
    """A number of bytes in binary units."""
    if value is None or not math.isfinite(value):
        return "-"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= scale:
            return f"{_three(value / scale)} {unit}"
    return f"{value:.0f} B"


def count(value: float | None) -> str:
    """How many, with three significant digits."""
    if value is None or not math.isfinite(value):
        return "-"
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{_three(value / scale)} {unit}"
    return f"{value:.0f}"


def _three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def ratio(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"x{value:.3f}"


def percent(value: float) -> str:
    """A share or difference: one digit, or more where it is small."""
    magnitude = abs(value) * 100
    return (
        f"{value * 100:.0f} %"
        if magnitude >= 19.95
        else f"{value * 100:.1f} %"
        if magnitude >= 0.095
        else f"{value * 100:.2g} %"
    )


def span(text: str) -> float:
    """A length of time as users write it: 90, 90s, 5m, 1h, 250ms."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|)\s*", text)
    if not match:
        raise WrongUse(f"'{text}' is not a length of time: expected for example 90s, 5m or 1h")
    if float(match[1]) == 0:
        raise WrongUse(f"'{text}' is no time at all: expected for example 90s, 5m or 1h")
    seconds = float(match[1]) * {"ms": 1e-3, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]
    if seconds > SPAN_MAX:
        raise WrongUse(f"'{text[:40]}' is longer than {SPAN_MAX // 3600} h: expected for example 90s, 5m or 1h")
    return seconds


def share(text: str, below: float = 1.0) -> float:
    """A share as users write it: 2%, 0.5 %, 0.02; for what may be more than the whole, `below` is larger."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < (below if match and match[2] else 1):  # 3 may have been meant as 3%
        raise WrongUse(f"'{text}' is not a share: expected for example 2% or 0.02")
    return value
