"""A plan as a file: what `mortise plan` wrote, or somebody after it, refused in one line that names the value that is wrong."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mortise import formats
from mortise.errors import WrongUse

Check = Callable[[Any], bool]


def read(path: Path) -> dict[str, Any]:
    plan = formats.load(path, formats.PLAN)
    of_plan, of_options = Judge(path, "", plan), Judge(path, "options.", plan.get("options"))
    of_plan.needs("argv", lambda v: are_words(v) and len(v) > 0, 'the program and its arguments, such as ["./server", "--once"]')
    of_plan.needs("arms", are_words, 'a list of arms, such as ["glibc", "hslab"]')
    of_plan.needs("options", lambda v: isinstance(v, dict), "a table of options")
    of_plan.needs("cells", lambda v: isinstance(v, list) and len(v) > 0, 'a list of cells, such as [{"index": 0, "seed": 7}]')
    for name, (check, expected) in OPTIONS.items():
        of_options.may_have(name, check, expected)
    indices = set()
    for i, cell in enumerate(plan["cells"]):
        of_plan.expect(f"cells[{i}]", cell, lambda v: isinstance(v, dict), 'a cell, such as {"index": 0, "seed": 7}')
        of_cell = Judge(path, f"cells[{i}].", cell)
        of_cell.needs("index", lambda v: is_number(v, 0) and v not in indices, "a whole number that no other cell has")  # noqa: B023
        of_cell.needs("seed", lambda v: is_number(v, 0), "a whole number")
        indices.add(cell["index"])
    return plan


class Judge:
    """One table of the plan."""

    def __init__(self, path: Path, under: str, table: Any) -> None:
        self.path, self.under, self.table = path, under, table

    def needs(self, name: str, check: Check, expected: str) -> None:
        if name not in self.table:
            raise WrongUse(f"'{self.path}': {self.under}{name} is missing: expected {expected}; make the plan anew with 'mortise plan'")
        self.expect(name, self.table[name], check, expected)

    def may_have(self, name: str, check: Check, expected: str) -> None:
        if name in self.table:
            self.expect(name, self.table[name], check, expected)

    def expect(self, name: str, value: Any, check: Check, expected: str) -> None:
        if not check(value):
            raise WrongUse(f"'{self.path}': {self.under}{name} = {shown(value)}: expected {expected}; make the plan anew with 'mortise plan'")


def shown(value: Any) -> str:
    """As JSON has it, on one line and not too long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_text(value: Any) -> bool:
    """What a program can be given as an argument."""
    try:
        return isinstance(value, str) and "\0" not in value and os.fsencode(value) is not None
    except UnicodeEncodeError:
        return False


def are_words(value: Any) -> bool:
    return isinstance(value, list) and all(is_text(word) for word in value)


def is_number(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


_TEXT = (is_text, "a text")
_TEXT_OR_NULL = (_or_null(is_text), "a text or null")
OPTIONS: dict[str, tuple[Check, str]] = {
    "time": _TEXT, "mem": _TEXT, "resolve": _TEXT, "check": _TEXT, "timeout": _TEXT, "metric_regex": _TEXT_OR_NULL, "stdin": _TEXT_OR_NULL,
    "ready": _TEXT_OR_NULL, "load": _TEXT_OR_NULL, "stop": _TEXT_OR_NULL, "sweep": (_or_null(are_words), "a list of sweeps or null"),
    "metric_less": (lambda value: isinstance(value, bool), "true or false"),
    "rounds": (lambda value: is_number(value, 1), "a whole number not below 1"),
    "repeat_inside": (lambda value: is_number(value, 1), "a whole number not below 1"),
    "warmup": (lambda value: is_number(value, 0), "a whole number not below 0"),
}  # fmt: skip
