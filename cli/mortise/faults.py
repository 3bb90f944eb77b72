"""Whether a run was what it should be: without this, an arm that crashed early would be the fastest."""

import hashlib
import math
import re
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from mortise import reach
from mortise.endings import describe, tail
from mortise.launching import Outcome

NUMBER_MIN, NUMBER_MAX = 1e-100, 1e100  # of a program's own: what is made of these overflows nowhere


@dataclass
class Expected:
    """What the first run did, which all others must do too."""

    status: int | None = None
    stdout: str | None = None


def find(settings: Any, expected: Expected, outcome: Outcome) -> str | None:
    """Why this run cannot be compared: it failed, was not served, or did something else than the first run did."""
    facts = outcome.facts
    status = facts["exit_status"]
    if settings.service is not None:
        if facts.get("load_status"):
            return of_load(outcome)
        status = 0 if status == 128 + signal.SIGTERM else status
    if expected.status is None:
        expected.status = status
    if status != expected.status or status >= 128 or status in (126, 127):
        other = f", where the first run {describe(expected.status)}" if status != expected.status else ""
        return f"{describe(status)}{other}{tail(outcome.stderr_tail)}"
    if settings.repeat_inside > 1 and not outcome.probed:
        return "was not repeated: it is static, or the loader ignores LD_PRELOAD for it; leave out --repeat-inside"
    if unserved := reach.fault(facts):
        return unserved
    if settings.check == "stdout" and settings.service is None:
        return another(expected, facts["stdout_sha256"], "(use --check exit, or --check with a filter, if that is the program's way)")
    if settings.check not in ("stdout", "exit"):
        return check(settings, expected, outcome)
    return None


def of_load(outcome: Outcome) -> str:
    return f"the load ended with status {outcome.facts['load_status']}: {first_line(outcome.load_output)}"


def another(expected: Expected, printed: str, hint: str) -> str | None:
    """Whether this is not what the first run printed."""
    if expected.stdout is None:
        expected.stdout = printed
    return None if printed == expected.stdout else f"printed something else than the first run {hint}"


def check(settings: Any, expected: Expected, outcome: Outcome) -> str | None:
    """What the user's command makes of the output (a server's load's), which must be the same in every run."""
    text = outcome.load_output.encode() if settings.service is not None else outcome.stdout
    done = subprocess.run(["/bin/sh", "-c", settings.check], input=text, capture_output=True, check=False)
    if done.returncode != 0:
        said = first_line(done.stderr.decode(errors="replace"))
        return f"did not pass the check '{settings.check}', which ended with status {done.returncode}: {said}"
    return another(expected, hashlib.sha256(done.stdout).hexdigest(), f"behind '{settings.check}'")


def measure_own(settings: Any, facts: dict[str, Any], outcome: Outcome, times: int = 1) -> str | None:
    """The program's own number, taken from what it or its load printed; where main ran several times, the mean of what each printed."""
    if settings.metric_regex is None:
        return None
    facts["metric"] = None
    text = outcome.load_output or outcome.stdout.decode(errors="replace")
    found = [match[1] if match.groups() else match[0] for match in re.finditer(settings.metric_regex, text)]
    if len(found) % times:
        return (
            f"printed {len(found)} numbers that '{settings.metric_regex}' finds in {times} repetitions of main: "
            "expected equally many in each (make the expression match one, or leave out --repeat-inside)"
        )
    each = max(len(found) // times, 1)
    try:
        numbers = [number_of(text or "0") for text in found[::each][:times]]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < math.inf for number in numbers):
        return f"printed nothing that '{settings.metric_regex}' finds as a number above 0"
    if strange := next((number for number in numbers if not NUMBER_MIN <= number <= NUMBER_MAX), None):
        return f"printed {strange:g}, of which no ratio can be made: expected a number from {NUMBER_MIN:g} to {NUMBER_MAX:g}"
    facts["metric"] = math.fsum(numbers) / len(numbers)
    return None


def number_of(text: str) -> float:
    """A number as programs print it. Commas part thousands; one that stands for a point would make 15 of 1,5 and 125 of 1,25."""
    return float(text.replace(",", "") if re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?", text) else text)


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it printed nothing")[:160]
