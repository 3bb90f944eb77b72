"""Should a crime go unseen, or be told in words that do not help, its victim would search in the wrong place.

One program a crime; the exact line, and death by SIGABRT. An allocator states here what it sees; what it does not state
it may miss. docs/5-faults.md says the same in prose.
"""

import re
import signal

import pytest

from support.allocators import NAMES, program, run

ONCE = "release each block once; look for two owners"
UNCHANGED = "pass the pointer that malloc returned, unchanged and once"
DOUBLE_100 = ("double_free", 112, ONCE)
INVALID = ("invalid_free", None, UNCHANGED)
SEEN = {
    "hslab": {
        "double_free": DOUBLE_100,
        "double_free_by_two_threads": ("double_free", 1024, ONCE),
        "double_free_later": INVALID,  # its slab has gone back: nothing is known of the block any more
        "double_free_large": INVALID,
        "free_inside": ("invalid_free", 112, UNCHANGED),
        "free_inside_large": INVALID,
        "free_inside_large_far": INVALID,
        "realloc_inside_large": INVALID,
        "usable_size_of_freed_large": INVALID,
    },
}
CASES = [(name, crime) for name in SEEN if name in NAMES for crime in SEEN[name]]


@pytest.mark.parametrize("name, crime", CASES)
def test_the_crime_is_named_and_the_program_ends(name, crime):
    fault, size, hint = SEEN[name][crime]
    done = run([program("crimes", "crime"), crime], name)
    pointer = done.out.split()[0]
    size_text = f" size={size}" if size else ""
    assert done.err == f'mortise[{name}] fault={fault} ptr={pointer}{size_text} hint="{hint}"\n'
    assert done.status == -signal.SIGABRT


@pytest.mark.parametrize("name", NAMES)
def test_a_double_free_never_goes_on(name):
    """Every allocator dies of the plainest double free, by a report of ours or not at all quietly."""
    done = run([program("crimes", "crime"), "double_free"], name)
    assert done.status == -signal.SIGABRT
    assert re.search(rf"^mortise\[{re.escape(name)}\] fault=double_free ptr=0x[0-9a-f]+ ", done.err, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_program_is_left_alone(name):
    done = run([program("life", "threads"), "handoff"], name).ok()
    assert "fault=" not in done.err
