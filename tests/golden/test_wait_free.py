"""Should a compiler make a loop of what the source says in one atomic step, a malloc or free of wfslab could be made to try again without
bound by other threads, and no count of steps in the source would show it: x86-64 has no "or" that returns a whole word, for one."""

import re
import subprocess

import pytest

from support.allocators import CARDS, NAMES, library

WAIT_FREE = [n for n in NAMES if CARDS[n]["progress"]["refill"] == "wait_free"]
# What hits and refills run, by mangled name: below, the heap grows.
BOUNDED = re.compile(r"WaitFreeSla?.*?(8put_home|4send|9send_home|8refilled|4look|7look_on|6depart|5chore|7restock|11adopt_spare|13visit_others|6retire|9take_span"
                     r"|9give_span|5adopt|6disown|4step|10run_errand|13release_aside|7set_out)|WaitFreeWords.*6refill|WaitFree(Bin|Pool|Hints|Tidings)|SpanShelf|^(malloc|free|calloc|_Zn[wa]m|_Zd[la]Pv)$")


def functions(name: str) -> dict[str, list[tuple[int, str]]]:
    """The instructions of each function of a library: address and text."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library(name))], check=True, capture_output=True, text=True).stdout
    found: dict[str, list[tuple[int, str]]] = {}
    for line in text.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(.+)>:$", line):
            current = found.setdefault(head[1].split("@")[0], [])
        elif body := re.match(r"^\s+([0-9a-f]+):\t(.*)$", line):
            current.append((int(body[1], 16), body[2]))
    return found


def tries_again(body: list[tuple[int, str]]) -> list[str]:
    """The compare-and-exchanges that are tried again: a jump back follows."""
    found = []
    for (_, text), (at, jump) in zip(body, body[1:]):
        target = re.match(r"j\w+\s+([0-9a-f]+)", jump)
        if "lock cmpxchg" in text and target and int(target[1], 16) < at:
            found.append(text)
    return found


@pytest.mark.parametrize("name", WAIT_FREE)
def test_no_step_of_a_hit_or_refill_is_a_loop(name):
    checked = {f: body for f, body in functions(name).items() if BOUNDED.search(f)}
    for part in ("put_home", "refill", "malloc", "free"):
        assert any(part in f for f in checked), f"{part} is not among what was looked at: {sorted(checked)}"
    assert any("lock xadd" in text for body in checked.values() for _, text in body), "no put was found"
    loops = {f: found for f, body in checked.items() if (found := tries_again(body))}
    assert not loops, f"tried again as often as others come in between: {loops}"


def test_a_loop_is_seen():
    """A lock of the library that may try again for ever is one."""
    assert WAIT_FREE == ["wfslab", "wfslabs"], "what is looked at above"
    assert any(tries_again(body) for f, body in functions("wfslab").items() if "FutexLock" in f)
