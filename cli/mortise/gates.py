"""`--fail-if`: a comparison as a gate. A gate is hit only where the whole interval lies beyond its threshold."""

import math
import re
from dataclasses import dataclass
from typing import Any

from mortise import formats
from mortise.errors import WrongUse, unknown

WORDS = {"slower": ("time", 1), "faster": ("time", -1), "larger": ("memory", 1), "smaller": ("memory", -1)}


@dataclass(frozen=True)
class Gate:
    text: str
    arm: str
    axis: str
    sign: int
    threshold: float

    def state(self, document: dict[str, Any]) -> str:
        """hit, clear, or open while the interval holds the threshold."""
        from mortise import analysis

        entry = document["arms"][self.arm]
        find = analysis.time_result if self.axis == "time" else analysis.memory_result
        result = None if entry["failure"] else find(document, entry)
        if result is None or result["level"] < analysis.level(document) - 1e-3:
            return "open"
        low, high = sorted(self.sign * math.log(result[end]) for end in ("low", "high"))
        edge = math.log1p(self.threshold)
        return "hit" if low > edge else "clear" if high <= edge else "open"


def parse(text: str, arms: list[str]) -> Gate:
    """`hslab slower 3%`: the arm, the word, the difference to the reference that is too much."""
    match = re.fullmatch(r"\s*(\S+)\s+(\w+)\s+(.+)", text)
    if not match or match[2] not in WORDS:
        raise WrongUse(f"--fail-if '{text}': expected for example 'hslab slower 3%' (or faster, larger, smaller)")
    if match[1] not in arms[1:]:
        raise unknown("arm in --fail-if", match[1], arms[1:], "name an arm other than the reference")
    axis, sign = WORDS[match[2]]
    return Gate(text.strip(), match[1], axis, sign, formats.share(match[3], below=math.inf))


def states(document: dict[str, Any]) -> dict[str, str]:
    """Every gate of a document with its state."""
    names = list(document["arms"])
    return {text: parse(text, names).state(document) for text in document["settings"].get("fail_if", [])}
