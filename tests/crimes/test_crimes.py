"""Should a crime go unseen, or be told in words that do not help, its victim would search in the wrong place.

One program a crime; the exact line, and the signal. An allocator states here what it sees; what it does not state it may
miss. docs/5-faults.md says the same in prose, `make bench-security` beside the peers.
"""

import re
import shutil
import signal
import subprocess
import sys

import pytest

from support.allocators import BUILD, NAMES, ROOT, environment, program, run

HINTS = {
    "double_free": "release each block once; look for two owners",
    "invalid_free": "pass a pointer as it was allocated, to the heap it came from, once",
    "tail_overwritten": "a write went past the end of this block",
    "header_overwritten": "a write went before the start of this block",
    "write_after_free": "a stale pointer was written through",
    "size_mismatch": "delete as the type that was allocated",
    "align_mismatch": "delete with the alignment that was asked for",
    "out_of_bounds": "an index or a length is wrong",
    "use_after_free": "a stale pointer was used",
}
DOUBLE_FREES = {
    f"double_free{how}": "double_free"
    for how in ("", "_small", "_medium", "_large", "_with_one_between", "_much_later", "_later", "_of_a_reused_block",
                "_by_two_threads", "_here_and_in_a_thread", "_after_realloc")
} | {"double_delete": "double_free", "realloc_after_free": "double_free", "usable_size_of_freed_large": "double_free",
     "tcache_key_cleared": "double_free", "fastbin_dup": "double_free"}
INVALID_FREES = dict.fromkeys(
    ("free_inside", "free_inside_misaligned", "free_inside_odd", "free_inside_medium", "free_inside_large",
     "free_inside_large_far", "free_before_the_start", "free_never_given", "realloc_inside", "realloc_inside_large",
     "usable_size_inside"), "invalid_free")
FOREIGN = dict.fromkeys(
    ("free_on_the_stack", "free_global", "free_wild", "realloc_on_the_stack", "house_of_spirit"),
    "invalid_free")
OVERFLOWS = dict.fromkeys(
    ("overflow_1", "overflow_1_odd_size", "overflow_by_a_zero", "overflow_by_a_zero_full_block", "overflow_4", "overflow_8",
     "overflow_16", "overflow_1_medium", "overflow_1_large", "overflow_after_calloc", "overflow_after_aligned_alloc",
     "overflow_after_realloc_shrank", "overflow_after_realloc_grew", "overflow_found_by_realloc", "overflow_through_new",
     "house_of_einherjar", "poison_null_byte"), "tail_overwritten")
# Beyond the canary behind the request, and in the one at the end of the block, where classes lie close enough.
FAR_OVERFLOWS = {"house_of_force": "tail_overwritten"}
# Into the start of a block, or anywhere into a large one; behind the start of others they go unseen.
WRITES_AFTER_FREE = dict.fromkeys(
    ("write_after_free_start", "write_after_free_small",
     "write_after_free_medium", "write_after_free_by_a_thread", "tcache_poisoning",
     "tcache_poisoning_safe_linking", "small_block_poisoning", "house_of_lore", "unsorted_bin_attack"), "write_after_free")
MISMATCHES = dict.fromkeys(("sized_delete_too_small", "sized_delete_too_large", "sized_delete_off_by_eight"), "size_mismatch") | {
    "aligned_delete_mismatch": "align_mismatch"}
# The memory has gone back to the system, and its marks with it: no block starts there.
TRIMMED = {"double_free_later": "invalid_free"}
# Those that run over a neighbour: whether its guard or the wall behind its slab is met first depends on where it lies.
NEIGHBOURS = dict.fromkeys(
    ("overflow_into_the_next_block", "overflow_256", "overflow_a_page", "overflow_far_past_a_large_block", "underflow_8",
     "underflow_16", "header_of_a_released_block", "overlapping_chunks", "mapped_chunk_size"), "tail_overwritten|out_of_bounds")
SEEN = {
    "hslab": {
        "double_free": "double_free", "double_free_by_two_threads": "double_free", "double_free_large": "invalid_free",
        "double_free_later": "invalid_free",  # its slab has gone back: nothing is known of the block any more
        "free_inside": "invalid_free", "free_inside_large": "invalid_free", "free_inside_large_far": "invalid_free",
        "realloc_inside_large": "invalid_free", "usable_size_of_freed_large": "invalid_free",
    },
    "hslabd": DOUBLE_FREES | INVALID_FREES | TRIMMED,
    "wfslabs": OVERFLOWS,
    "tlsfccsd": DOUBLE_FREES | INVALID_FREES | OVERFLOWS,
    "hslab_hardened":
        DOUBLE_FREES | INVALID_FREES | FOREIGN | OVERFLOWS | FAR_OVERFLOWS | WRITES_AFTER_FREE | MISMATCHES | NEIGHBOURS | TRIMMED,
}
# What is told of a block that lies alone between pages that nobody may touch, which see most crimes first. One allocation in 20 000 of
# hslab_hardened does, drawn at random.
BY_PAGES = re.compile(r"fault=(out_of_bounds|use_after_free|double_free) |^$")
CASES = [(name, crime) for name in SEEN if name in NAMES for crime in SEEN[name]]
PLACE = r"/\S+\+0x[0-9a-f]+"


def committed(name, expected, *words):
    """A run of a crime; of hslab_hardened once more where its block was one of the few that lie alone, which two in a row are not."""
    done = run(words, name)
    alone = name == "hslab_hardened" and (told := BY_PAGES.search(done.err)) and told[1] not in expected.split("|")
    return run(words, name) if alone else done


@pytest.mark.parametrize("name, crime", CASES)
def test_the_crime_is_named_and_the_program_ends(name, crime):
    faults = SEEN[name][crime]
    done = committed(name, faults, program("crimes", "crime"), crime, *(["trim"] if name == "hslab" else []))
    pointer = done.out.split()[0]
    found = re.fullmatch(
        rf'mortise\[{name}\] fault=({faults}) ptr=(0x[0-9a-f]+)( size=\d+)?( allocated_at={PLACE})?( freed_at={PLACE})?'
        rf'( seen_at={PLACE})? hint="([^"]*)"\n', done.err)
    assert found, done.err
    assert found[7] == HINTS[found[1]]
    assert "|" in faults or found[2] == pointer
    assert done.status == -(signal.SIGSEGV if found[1] == "out_of_bounds" else signal.SIGABRT)


def test_the_places_are_those_of_the_crime():
    """The first release and the second, each by function and line, as `mortise run` prints them after the program's end."""
    from mortise import aftermath

    done = run([program("crimes", "crime"), "double_free"], "hslabd")
    freed, seen = aftermath.explain(done.err)
    assert re.fullmatch(r"  freed at .*release.*|  freed at .*free_twice.*", freed) and "crimes" in freed
    assert seen.startswith("  noticed at ") and "crimes" in seen


@pytest.mark.parametrize("name", NAMES)
def test_a_double_free_never_goes_on(name):
    """Every allocator dies of the plainest double free, by a report of ours or not at all quietly."""
    done = run([program("crimes", "crime"), "double_free", "trim"], name)
    assert done.status == -signal.SIGABRT
    assert re.search(rf"^mortise\[{re.escape(name)}\] fault=double_free ptr=0x[0-9a-f]+ ", done.err, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_program_is_left_alone(name):
    done = run([program("life", "threads"), "handoff"], name).ok()
    assert "fault=" not in done.err


def test_a_write_to_what_a_sleeping_thread_has_freed_is_found_at_the_end():
    """It waits in that thread's quarantine, which nobody empties."""
    done = committed("hslab_hardened", "write_after_free", program("life", "threads"), "stale")
    assert re.match(r"mortise\[hslab_hardened\] fault=write_after_free ptr=0x[0-9a-f]+ ", done.err)
    assert done.status == -signal.SIGABRT


def test_whoever_runs_the_program_may_want_it_to_go_on():
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_ON_FAULT": "report"})
    assert done.err.count("fault=double_free") == 1 and done.status == 10  # told, and nothing was given out twice


@pytest.mark.parametrize("line, told, status", [
    ("crime double_free ignore", 0, 10),
    ("crime * report", 1, 10),
    ("* double_free report", 1, 10),
    ("/no/such/crime * ignore", 1, -signal.SIGABRT),
    ("# crime * ignore", 1, -signal.SIGABRT),
    ("crime tail_overwritten ignore\ncrime double_free abort\ncrime * ignore", 1, -signal.SIGABRT),
])
def test_exceptions_are_for_the_programs_they_name(tmp_path, line, told, status):
    (tmp_path / "exceptions").write_text(f"# who may do what\n{line}\n")
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_EXCEPTIONS": tmp_path / "exceptions"})
    assert (done.err.count("fault="), done.status) == (told, status)


def test_exceptions_are_for_programs_whose_file_is_gone_too(tmp_path):
    """An upgrade replaces it while they run."""
    (tmp_path / "exceptions").write_text("crime double_free ignore\n")
    copy = shutil.copy(program("crimes", "crime"), tmp_path / "crime")
    with open(copy, "rb") as file:
        copy.unlink()
        done = run([f"/proc/self/fd/{file.fileno()}", "double_free"], "hslabd", env={"MORTISE_EXCEPTIONS": tmp_path / "exceptions"},
                   pass_fds=[file.fileno()])
    assert (done.err, done.status) == ("", 10)


@pytest.mark.parametrize("text", ["crime double_free ignore", "crime double_free ignore\r\n"])
def test_the_last_line_of_the_exceptions_need_not_end_and_may_come_from_elsewhere(tmp_path, text):
    (tmp_path / "exceptions").write_bytes(text.encode())
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_EXCEPTIONS": tmp_path / "exceptions"})
    assert (done.err, done.status) == ("", 10)


@pytest.mark.parametrize("line", ["crime double_fre report", "crime double_free go_on", "crime double_free",
                                  "crime double_free ignore abort"])
def test_exceptions_that_make_no_sense_are_told_of_and_change_nothing(tmp_path, line):
    (tmp_path / "exceptions").write_text(f"\n  # comment\n{line}\n")
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_EXCEPTIONS": tmp_path / "exceptions"})
    warning, fault = done.err.splitlines()
    assert warning.startswith(f"mortise[hslabd] warning: '{line}' in {tmp_path}/exceptions is ignored; a line is PROGRAM FAULT ACTION")
    assert "fault=double_free" in fault and done.status == -signal.SIGABRT


@pytest.mark.parametrize("name", ["none", "folder"])
def test_exceptions_that_cannot_be_read_are_told_of_beside_the_fault(tmp_path, name):
    (tmp_path / "folder").mkdir()
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_EXCEPTIONS": tmp_path / name})
    assert done.err.startswith(f"mortise[hslabd] warning: cannot read {tmp_path}/{name}") and "fault=double_free" in done.err
    assert done.status == -signal.SIGABRT


def test_a_report_that_cannot_be_written_is_told_of(tmp_path):
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_REPORT_FILE": tmp_path / "none" / "report"})
    assert "fault=double_free" in done.err and f"warning: cannot write {tmp_path}/none/report" in done.err
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_REPORT_FILE": "/dev/full"})
    assert "fault=double_free" in done.err and "warning: cannot write /dev/full: it did not take all of it" in done.err


def test_reports_go_to_a_file_as_well(tmp_path):
    done = run([program("crimes", "crime"), "double_free"], "hslabd", env={"MORTISE_REPORT_FILE": tmp_path / "report"})
    assert (tmp_path / "report").read_text() == done.err


def test_there_are_crimes_enough_of_every_kind():
    listed = subprocess.run([program("crimes", "crime"), "--list"], capture_output=True, text=True, env=environment(None))
    kinds = [line.split()[1] for line in listed.stdout.splitlines()]
    assert len(kinds) >= 40 and {"spatial", "temporal", "argument", "metadata", "read"} <= set(kinds)


def test_a_file_for_reports_has_the_lines_and_the_places_are_named_as_ever(tmp_path):
    (tmp_path / "report").write_text(old := f"mortise[hslabd] fault=double_free ptr=0x1 freed_at={BUILD}/bin/old+0x5 hint=\"\"\n")
    for name in ("report", "report.%p"):
        done = run_by_name(f"--conf=report_file=none,report_file={tmp_path}/{name}")
        report, freed, seen = done.stderr.splitlines()
        assert freed.startswith("  freed at ") and seen.startswith("  noticed at ") and "crimes" in freed + seen
        (file,) = (path for path in tmp_path.iterdir() if path.name.startswith("report.") == ("." in name))
        assert file.read_text() == (old if name == "report" else "") + report + "\n"


def run_by_name(*options):
    command = [sys.executable, ROOT / "cli", "run", "--alloc", "hslabd", *options, "--", program("crimes", "crime"), "double_free"]
    return subprocess.run(command, capture_output=True, text=True, env=environment(None, MORTISE_HOME=str(BUILD)))


def test_run_names_the_places_when_the_program_has_ended():
    done = run_by_name()
    assert done.returncode == -signal.SIGABRT  # the program's own end
    report, freed, seen = done.stderr.splitlines()
    assert report.startswith("mortise[hslabd] fault=double_free ")
    assert freed.startswith("  freed at ") and seen.startswith("  noticed at ") and "crimes" in freed + seen
