"""The configuration keys of our allocators (`MORTISE_CONF`), as the build lists them."""

import sys
from typing import Any

from mortise import formats, home
from mortise.errors import WrongUse, unknown


def keys() -> dict[str, dict[str, Any]] | None:
    """Every key with its type, default and meaning; None when this installation has no list."""
    path = home.find("share/mortise/conf.json")
    if path is None:
        return None
    return {str(key["name"]): key for key in formats.load(path, formats.CONF)["keys"]}


def checked(text: str) -> str:
    """`K=V,K=V` as the library will read it; an unknown key is refused with the nearest name."""
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
        if known is not None and name not in known:
            raise unknown("configuration key", name, known, "mortise.conf(7) lists them")
    return ",".join(pairs)


def joined(*texts: str | None) -> str:
    """Several configurations as one: what comes later wins, as the library reads from left to right."""
    return ",".join(text for text in texts if text)
