"""Whether a run was what it should be: without this, an arm that crashed early would be the fastest."""

import re
import signal
from dataclasses import dataclass
from typing import Any

from mortise.launching import Outcome


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
            return f"the load ended with status {facts['load_status']}: {first_line(outcome.load_output)}"
        status = 0 if status == 128 + signal.SIGTERM else status
    if expected.status is None:
        expected.status = status
    if status != expected.status or status >= 128 or status in (126, 127):
        return f"ended with {describe(status)}{tail(outcome.stderr_tail)}"
    if facts["served"] == 0:
        return f"was not served: malloc came from {', '.join(facts['malloc_from']) or 'an unknown place'}"
    if settings.check == "stdout" and settings.service is None:
        if expected.stdout is None:
            expected.stdout = facts["stdout_sha256"]
        if facts["stdout_sha256"] != expected.stdout:
            return "printed something else than the first run (use --check exit if that is the program's way)"
    return None


def measure_own(settings: Any, facts: dict[str, Any], outcome: Outcome) -> str | None:
    """The program's own number, taken from what it or its load printed."""
    if settings.metric_regex is None:
        return None
    text = outcome.load_output or outcome.stdout.decode(errors="replace")
    match = re.search(settings.metric_regex, text)
    try:
        facts["metric"] = float((match[1] if match.groups() else match[0]).replace(",", "")) if match else None
    except ValueError:
        facts["metric"] = None
    return None if facts["metric"] else f"printed nothing that '{settings.metric_regex}' finds as a number above 0"


def describe(status: int) -> str:
    if status > 128:
        try:
            return f"signal {signal.Signals(status - 128).name}"
        except ValueError:
            pass
    return f"exit status {status}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it printed nothing")[:160]


def tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:160]}" if lines else ""
