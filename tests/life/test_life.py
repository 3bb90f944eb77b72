"""Should any of these fail, a program would crash, hang or swell on the allocator at some point of its life."""

import ctypes
import json
import resource
import sys
from pathlib import Path

import pytest

from support.allocators import has_layer, BUILD, CARDS, CORE_CACHED, NAMES, WAY_IDS, WAYS, library, program, run

PLUGINS = BUILD / "tests/life"
EVERY_WAY = pytest.mark.parametrize("name, rseq", WAYS, ids=WAY_IDS)
EVERY_NAME = pytest.mark.parametrize("name", NAMES)
PURGING = [n for n in NAMES if any(layer["parameters"].get("purge_delay_ms", -1) > 0 for layer in CARDS[n]["layers"])]


@EVERY_WAY
@pytest.mark.parametrize("what", ["order", "churn", "handoff"])
def test_threads_come_and_go(name, rseq, what):
    run([program("life", "threads"), what], name, rseq=rseq).ok()


@EVERY_WAY
def test_forks_while_threads_allocate(name, rseq):
    run([program("life", "forks")], name, rseq=rseq).ok()


@EVERY_WAY
@pytest.mark.parametrize("what", ["amid_flush", "amid_fork", "amid_end", "amid_stop"])
def test_a_fork_does_not_wait_with_the_heap_in_its_hands(name, rseq, what):
    """For the list of streams, whose holder waits for a stream, whose holder for malloc. Or for itself, where its own handler forks as well. Nor,
    with signals blocked, for who was stopped by one in malloc and goes on when this thread has stopped."""
    run([program("life", "forking"), what], name, rseq=rseq).ok()


@EVERY_WAY
def test_lists_are_built_and_taken_down_amid_everything(name, rseq):
    """Each block must be its list's own while magazines get longer, are emptied, and change their threads."""
    run([program("life", "trees")], name, rseq=rseq).ok()


@EVERY_WAY
def test_address_space_does_not_grow_where_nothing_may_be_restarted(name, rseq):
    """A sandbox that came later refuses membarrier: each miss of a long list took memory that it could not use, and left it behind."""
    run([program("life", "refused")], name, rseq=rseq).ok()


@EVERY_WAY
def test_no_malloc_nor_free_makes_a_call_that_a_filter_ends_the_program_for(name, rseq):
    """As the manual promises where no thread gives memory back. Magazines got longer by a membarrier, amid the program's own free."""
    run([program("life", "refused"), "strictly"], name, rseq=rseq, env={"MORTISE_CONF": "purge_ms=-1"}).ok()


@pytest.mark.parametrize("name, rseq", [(n, rseq) for n, rseq in WAYS if has_layer(n, "SpanCache")], ids=str)
def test_nor_does_a_free_above_the_soft_limit(name, rseq):
    """It is on by itself in a container. A release emptied the caches of all cores then, by a membarrier, and quarantines by some more."""
    run([program("life", "refused"), "strictly"], name, rseq=rseq, env={"MORTISE_CONF": "purge_ms=-1,soft_limit=256K"}).ok()


@EVERY_WAY
def test_signals_in_all_threads(name, rseq):
    run([program("life", "signals"), "rain"], name, rseq=rseq).ok()


@pytest.mark.parametrize("name", [n for n, rseq in WAYS if not rseq and not has_layer(n, "DelayedFree") and not has_layer(n, "DelayedBatches")])
def test_a_signal_handler_may_allocate_what_hits(name):
    """Restartable sequences make a hit safe to interrupt by another hit; no other way promises that. A release into a
    quarantine that is full is no hit."""
    run([program("life", "signals"), "allocate"], name).ok()


KEEPS_RECORDS = ("DelayedBatches", "DelayedReuse", "WaitFreeSlab", "EliminationArray")


@pytest.mark.parametrize("name", [n for n in NAMES if any(has_layer(n, layer) for layer in KEEPS_RECORDS)])
def test_a_signal_handler_may_allocate_where_a_thread_ends(name):
    """Behind the allocator's own destructor a record is had for one call: a handler in its middle gave it back, to another thread."""
    run([program("life", "signals"), "end"], name).ok()


@EVERY_NAME
def test_signals_that_a_thread_blocks_are_not_let_through(name):
    run([program("life", "signals"), "wait"], name).ok()


@pytest.mark.parametrize("name, rseq", [(n, False) for n in NAMES], ids=str)
def test_a_trap_after_every_instruction(name, rseq):
    run([program("life", "signals"), "step"], name, rseq=rseq).ok()


@EVERY_WAY
@pytest.mark.parametrize("size", [100, 5000, 300_000])
def test_memory_runs_out_and_comes_back(name, rseq, size):
    limit = 100 << 20
    run([program("life", "limits"), size], name, rseq=rseq,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))).ok()


@pytest.mark.parametrize("name", CORE_CACHED)
def test_threads_that_began_without_memory_have_caches_once_there_is_some(name):
    """Where caches are the threads' own: what such a thread borrowed for a call was given back as by one that has ended."""
    done = run([program("life", "borrowers")], name, rseq=False, env={"MORTISE_STATS": "json"}).ok()
    assert len(json.loads(done.err)["caches"]) >= 300


@EVERY_NAME
def test_a_request_that_no_machine_could_serve_empties_no_cache(name):
    """Programs that try sizes from a file ask for such; the next blocks would all be first touches."""
    run([program("life", "hopeless")], name, env={"MORTISE_PURGE_MS": "-1"}).ok()


@EVERY_NAME
def test_strict_overcommit_counts_only_what_is_used(name):
    """RLIMIT_DATA counts what vm.overcommit_memory=2 counts, private writable memory, for one process."""
    limit = 24 << 20
    run([program("life", "limits"), 100], name,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))).ok()


@EVERY_NAME
@pytest.mark.parametrize("mib", [8, 12, 16, 32])
def test_starts_in_little_address_space(name, mib):
    """Either the program runs, or the loader says that it cannot map it: never a crash of ours."""
    limit = mib << 20
    done = run(["/bin/true"], name, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.status in (0, 127), (done.status, done.err)
    if mib >= 16:
        assert done.status == 0, done.err


@pytest.mark.parametrize("name, rseq", [way for way in WAYS if way[0] in PURGING], ids=str)
def test_a_sleeping_program_gives_its_memory_back(name, rseq):
    run([program("life", "sleeper"), "idle"], name, rseq=rseq).ok()


@pytest.mark.parametrize("name", PURGING)
@pytest.mark.parametrize("what", ["crowded", "vforks"])
def test_memory_goes_back_whatever_befell_the_thread_for_it(name, what):
    """Refused once, by a limit that was met for a moment; or asked for by a child in its parent's memory, and gone with it."""
    run([program("life", "sleeper"), what], name).ok()


@pytest.mark.parametrize("name", PURGING)
@pytest.mark.parametrize("call", ["prctl", "membarrier", "futex"])
def test_memory_goes_back_where_a_filter_ends_the_thread_for_it(name, call):
    run([program("life", "sleeper"), "filtered", call], name).ok()


@pytest.mark.parametrize("name", PURGING)
@pytest.mark.parametrize("what", ["shut_in", "unshares"])
def test_a_program_that_shuts_itself_in_has_no_thread_but_its_own(name, what):
    run([program("life", "sleeper"), what], name).ok()


@pytest.mark.parametrize("name", PURGING)
@pytest.mark.parametrize("what", ["stays", "forks_amid"])
def test_the_thread_for_memory_comes_again_where_it_was_sent_away_for_a_moment(name, what):
    run([program("life", "sleeper"), what], name).ok()


def test_the_thread_for_a_reserve_comes_again_as_well():
    run([program("life", "sleeper"), "two_alone"], "wfslab", env={"MORTISE_CONF": "reserve_mb=8,refill_ahead=1"}).ok()


@pytest.mark.parametrize("name", PURGING)
@pytest.mark.parametrize("what", ["namesake", "parts"])
def test_nothing_waits_for_the_thread_in_namespaces(name, what):
    """Not a child with the number of its parent, nor who wants a directory or a semaphore that the program has left."""
    inside = ["unshare", "--user", "--map-root-user", "--ipc", "--fork", "--pid"]
    if run([*inside, "true"]).status:
        pytest.skip("no namespaces here")
    run([*inside, program("life", "sleeper"), what], name).ok()


@pytest.mark.parametrize("name", PURGING)
def test_a_program_may_answer_the_call_that_starts_the_thread_itself(name):
    run([program("life", "sleeper"), "trapped"], name).ok()


@pytest.mark.parametrize("name", ["hslab", "segfit"])
def test_a_small_program_is_not_ended_for_what_the_thread_was_ended_for(name):
    run([program("life", "sleeper"), "filtered", "madvise"], name).ok()


@pytest.mark.parametrize("name, rseq", [way for way in WAYS if way[0] in PURGING], ids=str)
def test_the_thread_that_gives_memory_back_takes_no_block_twice(name, rseq):
    """The kernel restarts no section of a thread that libc has not made: it may touch no cache of a core that others use."""
    run([program("life", "idle_thread"), "once"], name, rseq=rseq, env={"MORTISE_PURGE_MS": "2"}).ok()


@pytest.mark.parametrize("name, rseq", [way for way in WAYS if way[0] in PURGING], ids=str)
@pytest.mark.parametrize("what", ["stuck", "ends", "rights 100", "refused", "last"])
def test_the_thread_that_gives_memory_back_comes_and_goes(name, rseq, what):
    run([program("life", "idle_thread"), *what.split()], name, rseq=rseq).ok()


@pytest.mark.parametrize("name", PURGING)
def test_another_clock_is_in_the_place_of_libcs(name):
    """As under faketime: the clock of libc is for threads of libc, and not to be asked while a lock of the heap is held."""
    run([program("life", "idle_thread"), "once"], name, preload=(PLUGINS / "libprogram-life-clock.so",), timeout=60).ok()


@pytest.mark.parametrize("name", PURGING)
def test_blocks_that_grow_take_nobodys_place(name):
    """Nor does a sample stay behind where a block was whose pages have moved, for another block to be taken for it."""
    often = {"MORTISE_SAMPLE_BYTES": "16384"} if has_layer(name, "Sampled") else {}
    run([program("life", "movers")], name, env={"MORTISE_PURGE_MS": "0"} | often).ok()


@EVERY_NAME
def test_a_programs_own_operators_serve_the_others_too(name):
    """A block of its own would come to our delete, or one of ours to its."""
    assert run([program("life", "own_operators")], name).ok().out == "made 12, deleted 10, of others 0\nmade 12, deleted 10\n"


@EVERY_NAME
def test_nor_is_anybody_late_behind_a_library_that_wraps_main(name):
    """It looks like libc where that is sought by the name of what it wraps."""
    done = run([program("life", "own_operators")], preload=(PLUGINS / "libprogram-life-wrapper.so", library(name)))
    assert done.ok().out.startswith("made 12, deleted 10, of others 0\n")


@pytest.mark.parametrize("other", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"])
def test_nor_do_those_of_an_allocator_behind_us(other):
    """Its sized delete knows nothing of the program's, nor do its nothrow forms catch what the program's throws."""
    found = [str(path) for path in Path("/usr/lib").glob(f"*/{other}")]
    assert found or other != "libjemalloc.so.2", "it is installed with the programs"
    for behind in found:
        out = run([program("life", "own_operators")], "hslab", preload=(behind,)).ok().out
        assert ", deleted 10, of others 0\n" in out, "it may have made some itself"
        assert run([program("life", "own_arrays")], "hslab", preload=(behind,)).ok().out == "deleted 2\n"


@EVERY_NAME
def test_a_programs_own_arrays_are_no_matter_of_other_blocks(name):
    """Of those whose operators are ours sizes are still checked, where they are."""
    assert run([program("life", "own_arrays")], name).ok().out == "deleted 2\n"
    done = run([program("life", "own_arrays"), "wrong"], name)
    assert ("size_mismatch" in done.err) == (done.status != 0) == has_layer(name, "SizeCheck"), done.err


PLUGGED = "import ctypes, sys; ctypes.CDLL(sys.argv[1], mode=int(sys.argv[2])).runs_out()"


@EVERY_NAME
@pytest.mark.parametrize("mode", [ctypes.RTLD_LOCAL, ctypes.RTLD_GLOBAL])
def test_a_plug_in_of_a_program_in_c_catches_what_operator_new_throws(name, mode):
    """The C++ library came with it, and nobody else sees that."""
    run_out = [sys.executable, "-c", PLUGGED, PLUGINS / "libprogram-life-thrower.so", mode]
    assert run(run_out, name).ok().out == run(run_out).ok().out


DIRECTLY = """
import ctypes, sys
heap = ctypes.CDLL(sys.argv[1])
for function in (heap.malloc, heap.reallocarray): function.restype = ctypes.c_void_p
block = heap.reallocarray(ctypes.c_void_p(heap.malloc(100)), ctypes.c_size_t(20), ctypes.c_size_t(10))
getattr(heap, "_ZdlPvm")(ctypes.c_void_p(block), ctypes.c_size_t(200))
print("served")
"""


@EVERY_NAME
def test_opened_by_dlopen_nobody_is_in_front(name):
    """The program's malloc is libc's then, which is nobody that our functions would come down to."""
    assert run([sys.executable, "-c", DIRECTLY, library(name)]).ok().out == "served\n"


@EVERY_NAME
def test_a_programs_own_malloc_serves_reallocarray_too(name):
    assert run([program("life", "own_malloc")], name).ok().out == "kept\n"


# hslab+affinity keeps pools, guards keep marks (a sixteenth of the heap) and quarantines; segfit gives back whole spans only.
@pytest.mark.parametrize("low, high", [(16, 512), (1000, 30_000), (100_000, 1_000_000)])
@pytest.mark.parametrize("what", ["all", "lifo", "random"])
@pytest.mark.parametrize("name", ["hslab", "hslab_profiled"])
def test_after_a_burst_only_pages_that_hold_a_block_stay(name, what, low, high):
    run([program("life", "bursts"), what, low, high], name).ok()


@EVERY_NAME
@pytest.mark.parametrize("what", ["locked", "guarded"])
def test_memory_is_locked_or_calls_are_refused(name, what):
    run([program("life", "sleeper"), what], name).ok()


@EVERY_WAY
def test_opened_late_beside_libcs_malloc(name, rseq):
    assert run([program("life", "late"), library(name)], rseq=rseq).ok().out == "ok\n"


@EVERY_NAME
def test_opened_late_it_keeps_out_of_the_programs_own_fork_handlers(name):
    """They were registered before, and so run with its locks taken: but streams and signals are theirs."""
    run([program("life", "forking"), "late", library(name)]).ok()


@EVERY_WAY
def test_a_library_that_comes_before(name, rseq):
    """Its constructor allocates, its calloc is called from within dlsym, its fork handlers allocate."""
    early = PLUGINS / "libprogram-life-early.so"
    for order in ((early, library(name)), (library(name), early)):
        done = run([program("life", "forks"), 3], name, rseq=rseq, env={"LD_PRELOAD": ":".join(map(str, order))}).ok()
        assert "early: calloc called" in done.err


@EVERY_NAME
def test_deepbind_is_cleared_and_plugins_find_their_plugins(name):
    """The inner plugin lies where only the outer one's own RUNPATH leads: the loader must see who calls."""
    done = run([program("life", "plugins"), PLUGINS / "libprogram-life-outer.so"], name).ok()
    users = {line for line in done.out.splitlines() if line.startswith("inner uses")}
    assert users == {f"inner uses {library(name)}"}
    assert done.out.endswith("ok\n")
