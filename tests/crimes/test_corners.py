"""Should a corner of what docs/5-faults.md promises be left out, it would be the one that somebody relies on.

Sizes and entry points that few programs use, what becomes of a program that goes on, and honest acts that look like a crime.
"""

import re
import signal

import pytest

from support.allocators import NAMES, program, run

GUARDED = [name for name in ("hslabd", "tlsfccsd", "hslab_hardened") if name in NAMES]
TAILED = [name for name in ("tlsfccsd", "hslab_hardened") if name in NAMES]
BOLD = ["hslab_hardened"] if "hslab_hardened" in NAMES else []


def corner(name, case, **settings):
    return run([program("crimes", "corners"), case], name, env=settings)


def assert_told(done, name, fault):
    pointer = done.out.split()[0]
    assert re.match(rf"mortise\[{name}\] fault={fault} ptr={pointer} ", done.err), done.err
    assert done.status == -signal.SIGABRT


@pytest.mark.parametrize("name", TAILED)
@pytest.mark.parametrize("case", ["overflow_of_a_small_block_on_a_large_alignment", "overflow_of_a_large_block_that_shrank"])
def test_the_first_byte_past_the_end_is_watched_however_much_larger_the_block_is(name, case):
    assert_told(corner(name, case), name, "tail_overwritten")


@pytest.mark.parametrize("name", BOLD)
@pytest.mark.parametrize("case", ["sized_delete_of_a_large_block", "sized_delete_of_a_small_block_on_a_large_alignment"])
def test_sizes_are_compared_to_the_byte_however_large_the_block_is(name, case):
    assert_told(corner(name, case), name, "size_mismatch")


@pytest.mark.parametrize("name", BOLD)
@pytest.mark.parametrize("case, fault", [("twice", "double_free"), ("of_a_large_block_twice", "double_free"),
                                         ("inside", "invalid_free"), ("inside_a_large_block", "invalid_free")])
def test_a_wrong_sized_delete_is_told_once_and_with_its_place(name, case, fault):
    done = corner(name, f"sized_delete_{case}", MORTISE_ON_FAULT="report")
    told = rf"mortise\[{name}\] fault={fault} ptr={done.out.split()[0]} .*seen_at=\S+corners\+\S+ .*\n"
    assert re.fullmatch(told, done.err), done.err
    assert done.status == 0


@pytest.mark.parametrize("name", GUARDED)
def test_a_realloc_to_nothing_is_the_programs_own_release(name):
    done = corner(name, "realloc_to_nothing_twice")
    assert_told(done, name, "double_free")
    places = re.findall(r" (?:freed|seen)_at=(\S+)", done.err)
    assert len(places) == 2 and all(place.rpartition("+")[0].endswith("corners") for place in places), done.err


@pytest.mark.parametrize("name", BOLD)
@pytest.mark.parametrize("case", ["new_of_a_sampled_block", "realloc_to_a_sampled_block"])
def test_a_sampled_blocks_allocation_is_the_programs_own(name, case):
    done = corner(name, case)
    assert_told(done, name, "double_free")
    places = re.findall(r" (?:allocated|freed|seen)_at=(\S+)", done.err)
    assert len(places) == 3 and all(place.rpartition("+")[0].endswith("corners") for place in places), done.err


@pytest.mark.parametrize("name", BOLD)
def test_a_threads_stack_is_nobodys_heap(name):
    assert_told(corner(name, "free_on_a_threads_stack"), name, "invalid_free")


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("case, fault", [("realloc_of_a_released_block", "double_free"), ("realloc_of_a_released_large_block", "double_free"),
                                         ("realloc_inside", "invalid_free"), ("realloc_inside_a_large_block", "invalid_free")])
def test_a_program_that_goes_on_after_a_wrong_realloc_has_a_sound_heap(name, case, fault):
    done = corner(name, f"{case}_and_on", MORTISE_ON_FAULT="report")
    assert re.fullmatch(rf"mortise\[{name}\] fault={fault} ptr={done.out.split()[0]} .*\n", done.err), done.err
    assert done.status == 0


@pytest.mark.parametrize("name", BOLD)
@pytest.mark.parametrize("crime", ["free_global", "free_on_the_stack", "realloc_on_the_stack", "free_wild"])
def test_a_program_that_goes_on_after_a_pointer_of_nobody_does_not_die_of_it_elsewhere(name, crime):
    done = run([program("crimes", "crime"), crime], name, env={"MORTISE_ON_FAULT": "report"})
    assert re.fullmatch(rf"mortise\[{name}\] fault=invalid_free ptr={done.out.split()[0]} .*\n", done.err), done.err
    assert done.status == 0


@pytest.mark.parametrize("name", BOLD)
def test_the_size_of_a_pointer_of_nobody_is_not_asked_elsewhere(name):
    assert_told(corner(name, "usable_size_on_the_stack"), name, "invalid_free")


@pytest.mark.parametrize("name", BOLD)
def test_a_pointer_that_cannot_be_looked_up_is_passed_on(name):
    done = corner(name, "foreign_without_descriptors")
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize("name", BOLD)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_signal_that_was_sent_does_what_it_does_without_us(name, number):
    """Ends the program; or nothing, where whoever started it has it ignored."""
    case = f"sent_{number.name[3:].lower()}"
    assert corner(name, case).status == -number
    command = f"trap '' {number.name[3:]}; exec '{program('crimes', 'corners')}' {case}"
    done = run(["sh", "-c", command], name)
    assert (done.status, done.err) == (0, "")
