"""Should a hit of malloc or free gain a call, a frame or a lock, every program would pay for it on every block.

`count` traps each instruction of a warm call; the disassembler names them. Three bounds, from wide to narrow: the
budget that the allocator states of itself, no instruction of a forbidden kind, and the mix on record in NAME.json
beside this file. A better mix is put on record by running these tests with MORTISE_GOLDEN=write.
"""

import json
import os
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from support.allocators import CARDS, CORE_CACHED, NAMES, library, program, run

HERE = Path(__file__).parent
FALLBACK_BUDGET = 28
BETWEEN_COMPILERS = 2  # records are g++'s; clang's hits differ by so many at most
BUDGETED = [n for n in NAMES if CARDS[n]["budget"]["malloc"]]
WAYS = [(n, rseq) for n in BUDGETED for rseq in ((True, False) if n in CORE_CACHED else (True,))]
KIND = {"malloc": "malloc", "operator_new": "malloc",
        "free": "free", "operator_delete": "free", "operator_delete_sized": "free"}


@cache
def instructions(name: str) -> dict[int, str]:
    """The text of every instruction of a library, by address."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(library(name))]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {int(m[1], 16): m[2].strip() for m in re.finditer(r"^\s+([0-9a-f]+):\t(.*)$", text, re.M)}


@cache
def hits(name: str, rseq: bool) -> dict[str, list[str]]:
    """The instructions that each call executed, in order; "elsewhere" outside the library."""
    lines = run([program("golden", "count")], name, rseq=rseq).ok().out.splitlines()
    texts = instructions(name)
    return {what: ["elsewhere" if at == "elsewhere" else texts[int(at, 16)] for at in places]
            for what, _, *places in (line.split() for line in lines)}


def mix(texts: list[str]) -> dict[str, int]:
    return dict(sorted(Counter(t.split()[0] for t in texts).items()))


@pytest.mark.parametrize("name, rseq", WAYS, ids=str)
def test_hits_keep_their_budget(name, rseq):
    budget = CARDS[name]["budget"]
    for what, kind in KIND.items():
        most = budget[kind] if rseq else max(budget[kind], FALLBACK_BUDGET)
        texts = hits(name, rseq)[what]
        assert len(texts) <= most, f"{what} executes {len(texts)} instructions, budget {most}:\n" + "\n".join(texts)


@pytest.mark.parametrize("name, rseq", WAYS, ids=str)
def test_hits_have_no_call_no_frame_no_lock(name, rseq):
    for what in KIND:
        for text in hits(name, rseq)[what]:
            operation, _, operands = text.partition(" ")
            assert not re.match(r"call|push|pop|enter|leave|lock|elsewhere|syscall", operation), f"{what}: {text}"
            assert not (operation.startswith("xchg") and "(" in operands), f"{what}: {text} locks the bus"
            assert not (operation.startswith("sub") and operands.endswith("%rsp")), f"{what}: {text} makes a frame"


@pytest.mark.parametrize("name", [n for n in BUDGETED if n in ("hslab", "hslab+affinity", "wfslab")])
@pytest.mark.parametrize("what", ["realloc_of_null", "realloc_in_place"])
def test_realloc_needs_no_frame_for_a_hit_or_a_block_that_stays(name, what):
    """Programs whose allocator is one function call it for everything: lua for each object that it makes."""
    assert not [text for text in hits(name, True)[what] if re.match(r"call|push|pop|enter|leave|sub .*%rsp", text)]


@pytest.mark.parametrize("name", BUDGETED)
def test_hits_are_no_longer_than_on_record(name):
    record = HERE / f"{name}.json"
    now = {what: mix(texts) for what, texts in hits(name, True).items()}
    if os.environ.get("MORTISE_GOLDEN") == "write":
        record.write_text(json.dumps(now, indent=1) + "\n")
    assert record.exists(), f"no record of {name}: run these tests with MORTISE_GOLDEN=write and keep {record}"
    for what, old in json.loads(record.read_text()).items():
        inside = {k: n for k, n in now[what].items() if k != "elsewhere"}
        before = sum(n for k, n in old.items() if k != "elsewhere")
        assert sum(inside.values()) <= before + BETWEEN_COMPILERS, f"{what} of {name}: {now[what]}, on record {old}"
