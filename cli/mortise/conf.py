"""The configuration keys of our allocators (`MORTISE_CONF`), as the build lists them, and what their values may be."""

import os
import re
import sys
from collections.abc import Callable
from typing import Any

from mortise import formats, home
from mortise.errors import WrongUse, unknown

PATH_BYTES_MAX = 200
CPUS, NODES_MAX = 1024, 8
LIBRARY_MAX = 9_999_999_999  # what the library reads of any of them
SAMPLE_MAX = 1 << 40
RANGES = {  # of the integers that do not begin at 0 or end earlier
    "purge_ms": (-1, LIBRARY_MAX),
    "affinity_objects": (1, 1_000_000),
    "affinity_bytes": (16, 1024),
    "affinity_misses": (1, 1_000_000),
    "affinity_profile": (0, 10_000),
}


def keys() -> dict[str, dict[str, Any]] | None:
    """Every key with its type, default and meaning; None when this installation has no list."""
    path = home.find("share/mortise/conf.json")
    if path is None:
        return None
    return {str(key["name"]): key for key in formats.load(path, formats.CONF)["keys"]}


def checked(text: str) -> str:
    """`K=V,K=V` as the library will read it; an unknown key is refused with the nearest name, a value with what is expected."""
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    known = keys()
    if known is None and pairs:
        print(
            "mortise: the list of configuration keys (share/mortise/conf.json) is missing: keys are not checked",
            file=sys.stderr,
        )
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise WrongUse(f"'{pair}' in --conf is not KEY=VALUE: expected for example purge_ms=100")
        if known is None:
            continue
        if name not in known:
            raise unknown("configuration key", name, known, "mortise.conf(7) lists them")
        if (expected := lacks(name, str(known[name]["type"]), value)) is not None:
            raise WrongUse(f"'{value}' is no value of '{name}': expected {expected}; mortise.conf(7) says what it does")
    return ",".join(pairs)


def lacks(name: str, kind: str, value: str) -> str | None:
    """What was expected, where the library would pass over the value; None where it takes it, or the kind is new."""
    if kind == "integer":
        low, high = RANGES.get(name, (0, LIBRARY_MAX))
        return None if is_integer(value, low, high) else f"a whole number from {low} to {high}"
    if name == "sample_bytes" and is_bytes(value) and not is_bytes(value, SAMPLE_MAX):
        return "bytes such as 512K, up to 1T"
    if kind in KINDS:
        takes, expected = KINDS[kind]
        return None if takes(value) else expected
    return one_of(kind.split("|")) if "|" in kind and value not in kind.split("|") else None


def one_of(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def is_integer(value: str, low: int, high: int) -> bool:
    match = re.fullmatch(r"(-?)([0-9]+)", value)
    return bool(match) and low <= (-whole(match[2]) if match[1] else whole(match[2])) <= high


def whole(digits: str) -> int:
    """However many they are, where Python reads some thousands: of the first thirty the number is beyond every bound."""
    return int(digits.lstrip("0")[:30] or 0)


def is_bytes(value: str, most: int = 2**64 - 1) -> bool:
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", value)
    return bool(match) and 0 < whole(match[1]) << 10 * " KMGT".index(match[2] or " ") <= most


def is_limit(value: str) -> bool:
    share = re.fullmatch(r"([0-9]+)%", value)
    return value == "none" or is_bytes(value) or (share is not None and 0 < whole(share[1]) <= 100)


def is_path(value: str) -> bool:
    return len(os.fsencode(value)) <= PATH_BYTES_MAX


def names_nodes(value: str) -> bool:
    """The CPUs of each node, no CPU twice: 0-3+8;4-7."""
    if value in ("auto", "off"):
        return True
    ranges = [re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", piece) for piece in re.split(r"[+;]", value)]
    cpus = [cpu for r in ranges if r for cpu in range(whole(r[1]), min(whole(r[2] or r[1]), CPUS) + 1) or [CPUS]]
    sound = all(ranges) and len(set(cpus)) == len(cpus) and max(cpus) < CPUS
    return sound and value.count(";") < NODES_MAX


KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "path": (is_path, f"a path of at most {PATH_BYTES_MAX} characters"),
    "bytes": (is_bytes, "bytes such as 512K or 2M"),
    "bytes|percent|none": (is_limit, "bytes such as 100M or 2G, a share such as 90%, or none"),
    "auto|off|cpus": (names_nodes, f"auto, off, or the CPUs of each of at most {NODES_MAX} nodes such as 0-3+8;4-7, each CPU once"),
}


def joined(*texts: str | None) -> str:
    """Several configurations as one: what comes later wins, as the library reads from left to right."""
    return ",".join(text for text in texts if text)
