"""If these fail, a threaded program behaves differently with isolated threads: other output or status, or a hang."""

import resource

import pytest

from .conftest import allocators, run

ENDS_QUIETLY = ["exit-in-thread", "_exit-in-thread", "quick-exit-in-thread", "pthread-exit-in-main", "main-returns",
                "main-exits", "main-crashes", "detach", "system-call-in-thread", "system-call-in-main"]
ENDS_BY_SIGNAL = {"crash": "SIGSEGV", "abort": "SIGABRT", "raise": "SIGTERM", "overflow": "SIGSEGV"}


def test_threads_really_live_apart(program, isolated):
    """The one thing the program can ask the kernel: is the other thread a process of its own?"""
    done = isolated([program("apart")])
    assert done.out == "own process: 1\nshared counter: 4\n"


def test_synchronisation_objects(program, same_both_ways):
    done = same_both_ways([program("sync")], times=10)
    assert done.status == 0 and not done.said


def test_deadlines_out_of_all_bounds(program, same_both_ways):
    """A thread would spin until what it waits for comes, or not wait at all."""
    same_both_ways([program("deadlines")])


def test_threads_made_by_several_threads_at_once(program, same_both_ways):
    """The first thread may make others while main does: what the runtime starts once must not be started twice."""
    assert same_both_ways([program("creators")], times=40).out == "made 80 failed 0\n"


def test_hundreds_of_threads(program, same_both_ways):
    assert same_both_ways([program("crowd")]).status == 0


def test_threads_made_while_something_is_done_in_all(program, isolated):
    assert isolated([program("newcomers")]).out == "stale: 0\n"


def test_stacks_of_the_program(program, same_both_ways):
    same_both_ways([program("stacks")])


def test_what_is_kept_of_deep_stacks(program, same_both_ways):
    """A program whose threads come and go would keep the most that each of them ever used."""
    assert same_both_ways([program("deep_stacks")]).out == ""


def test_identity_of_threads(program, same_both_ways):
    same_both_ways([program("identity")], times=5)


def test_cpp20(program, same_both_ways):
    assert same_both_ways([program("cpp20")], times=10).status == 0


@pytest.mark.parametrize("way", ENDS_QUIETLY)
def test_ends(program, same_both_ways, way):
    assert not same_both_ways([program("ends"), way]).said


@pytest.mark.parametrize("way", ENDS_BY_SIGNAL)
def test_a_crash_names_its_thread_and_keeps_its_status(program, same_both_ways, way):
    done = same_both_ways([program("ends"), way])
    assert len(done.said) == 1
    assert "thread " in done.said[0] and ENDS_BY_SIGNAL[way] in done.said[0]


def test_a_thread_that_ends_while_main_does(program, same_both_ways):
    """Main killed its whole process group, itself among it, where the thread went between two of its steps."""
    assert same_both_ways([program("stepped_ends")]).out == "as asked: 40 of 40\n"


@pytest.mark.parametrize("who", ["thread", "main"])
def test_handlers_for_crashes(program, same_both_ways, who):
    assert same_both_ways([program("crash_handlers"), who]).out.endswith("told\n")


@pytest.mark.parametrize("way", ["crash", "abort", "main-crashes"])
def test_a_core_dump_holds_what_the_program_used(program, isolated, tmp_path, way):
    """The reserved terabyte must not be written out; where core dumps go elsewhere there is nothing to look at."""
    most = 256 << 20
    done = isolated([program("ends"), way], cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (most, most)))
    assert done.status < 0
    for core in tmp_path.iterdir():
        assert core.stat().st_size < most // 2


@pytest.mark.parametrize("way", ["exit", "exit_group", "abort", "raise", "crash"])
def test_nothing_is_held_when_the_end_is_known(program, same_both_ways, tmp_path, way):
    assert "free 1" in same_both_ways([program("death"), tmp_path / "file", way], times=5).out


@pytest.mark.parametrize("way", ["kill-self", "kill-self-gently", "kill-self-gently-blocked", "kill-self-thread", "kill-self-queue"])
def test_kill_ends_the_whole_program(program, same_both_ways, way):
    """And comes back to no thread."""
    assert "came back" not in same_both_ways([program("ends"), way], times=20).out


def test_deferred_cancellation(program, same_both_ways):
    same_both_ways([program("cancel")], times=5)


def test_cancellation_of_a_thread_that_ends(program, same_both_ways):
    same_both_ways([program("cancelled_ends")], times=5)


@pytest.mark.parametrize("wait", ["cond", "semaphore", "join"])
def test_a_cancellation_that_comes_while_a_handler_runs_over_the_wait(program, same_both_ways, wait):
    """Its signal finds the thread in the handler, behind which the wait would go on for ever."""
    assert same_both_ways([program("cancelled_amid_handlers"), wait]).out == "left waiting: 0\n"


@pytest.mark.parametrize("how", ["joined", "cancelled", "returns"])
def test_a_program_that_goes_on_without_main(program, same_both_ways, how):
    same_both_ways([program("main_goes"), how], times=5)


def test_fork_popen_system(program, same_both_ways):
    same_both_ways([program("family")], times=5)


def test_children_that_the_kernel_is_asked_for(program, same_both_ways):
    assert same_both_ways([program("raw_forks")], times=5).out.count("value 1") == 5


def test_children_that_are_forked_while_others_change_what_is_mapped(program, same_both_ways):
    assert same_both_ways([program("fork_busy"), program("counting", "-shared", "-fPIC")]).out == "whole: 100 of 100\n"


@pytest.mark.parametrize("call", ["execve", "fexecve", "execveat", "syscall", "filtered"])
@pytest.mark.parametrize("who", ["thread", "main"])
def test_exec_keeps_the_process(program, same_both_ways, who, call):
    assert same_both_ways([program("exec"), who, call]).status == 11


@pytest.mark.parametrize("who", [[], ["thread"]])
def test_an_exec_that_fails_leaves_the_program_as_it_is(program, same_both_ways, tmp_path, who):
    assert same_both_ways([program("exec_fails"), tmp_path, *who]).status == 33


def test_a_lock_stays_when_the_last_thread_has_just_been_joined(program, same_both_ways, tmp_path):
    assert same_both_ways([program("exec_lock"), tmp_path / "file"], times=10).out == "lost: 0\n"


def test_places_that_are_used_again(program, same_both_ways):
    """Unmapped twice, mapped over, over a file: nobody gets another's pages, and no file is emptied."""
    assert same_both_ways([program("places")], times=3).out == "apart\n"


def test_mappings_of_more_than_there_is_room_for(program, same_both_ways):
    """One after the other: a server would run into it some day."""
    assert same_both_ways([program("large_files")], times=1).out == "read: 200\n" * 2


def test_memory_where_stacks_were(program, same_both_ways):
    assert same_both_ways([program("old_stacks")], times=5).out == "all: 1\n"


def test_threads_that_are_asked_for_by_name(program, same_both_ways):
    assert same_both_ways([program("named")], times=3).out == "as asked\n"


def test_memory_calls_after_create(program, same_both_ways):
    same_both_ways([program("memory")], times=5)


def test_rights_that_another_thread_gives(program, same_both_ways):
    assert "-" not in same_both_ways([program("rights")], times=5).out


def test_shared_memory_of_other_kinds(program, same_both_ways):
    same_both_ways([program("segments")], times=5)


def test_memory_at_addresses_of_32_bits(program, same_both_ways):
    same_both_ways([program("low_memory")], times=5)


def test_memory_that_is_constant_in_every_thread(program, same_both_ways):
    """From before the first thread, too, and where a handler of the program looks at the faults."""
    assert same_both_ways([program("constant")], times=5).out.count("-14") == 20


def test_memory_that_the_program_reserves(program, same_both_ways):
    assert same_both_ways([program("reserved")]).out == "forbidden: 1 1\n" * 3


def test_memory_that_a_database_reserves(program, same_both_ways):
    """Hundreds of gigabytes, of which it opens what it needs."""
    assert "-1" not in same_both_ways([program("reservations")]).out


def test_what_malloc_reserves_is_not_forbidden(program, same_both_ways):
    """Each piece that an arena grows by would stop all threads."""
    assert same_both_ways([program("crash_reporter")]).out == "forbidden: 0\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_pages_that_the_allocator_forbids(program, isolated, runtime, when):
    """Made before the first thread or after it, a wall stands in every thread, and the allocator says who ran into it."""
    hardened = runtime.with_name("libmortise-hslab_hardened.so")
    ordinary, done = run([program("beyond"), when], [hardened]), isolated([program("beyond"), when], [hardened])
    assert done.status == ordinary.status and "fault=out_of_bounds" in ordinary.err and "fault=out_of_bounds" in done.err


def test_guard_pages_from_before_the_first_thread(program, same_both_ways):
    same_both_ways([program("guards")])


def test_memory_that_a_child_finds_empty(program, same_both_ways):
    """A generator of random numbers would give parent and child the same ones."""
    assert "child: 0 0 1 1\n" in same_both_ways([program("wiped")]).out


def test_what_memory_calls_answer(program, same_both_ways):
    same_both_ways([program("answers")])


def test_calls_with_a_time_limit_wait_for_all_of_it(program, same_both_ways):
    assert same_both_ways([program("timed")]).out.count("waited") == 9


def test_memory_that_the_kernel_is_handed(program, same_both_ways):
    assert "-1" not in same_both_ways([program("transfers")]).out


def test_files_and_streams(program, same_both_ways, tmp_path):
    same_both_ways([program("files"), tmp_path / "file"], times=5)


def test_mappings_of_files_that_change(program, same_both_ways):
    same_both_ways([program("file_views")])


def test_mappings_at_addresses_of_the_programs_choosing(program, same_both_ways, tmp_path):
    """Another thread saw the file that was there before, or zeros; memory was mapped over."""
    assert same_both_ways([program("chosen"), tmp_path]).status == 0


def test_a_mapping_that_there_is_no_room_for_takes_nothing_away(program, isolated):
    """The thread ended by SIGSEGV where it was given that memory next."""
    done = isolated([program("no_room")])
    assert (done.status, done.out) == (0, "refused: 1 1\nagain: 1 x\n")


def test_threads_that_the_program_reaps_itself(program, same_both_ways):
    """A join waited for ever, or no more threads could be made, once main had waited with __WALL often enough."""
    same_both_ways([program("reaps_all")], env={"MORTISE_THREADS_MAX": "12"})


def test_what_is_cut_out_of_a_mapping_needs_room_first(program, isolated):
    """Other threads ended by SIGSEGV behind the cut, where the table of mappings was full."""
    done = isolated([program("cut_in_the_middle")])
    assert (done.status, done.out) == (0, "memory: no room c\nnothing: no room c\nfile, with room for one: no room c\nnothing, with room: done c\n")


@pytest.mark.parametrize("what", ["files", "memory", "empty"])
def test_pieces_that_there_is_no_room_for(program, same_both_ways, what):
    """What lay above such a cut was forgotten: writing there was SIGSEGV, or a child's writing was seen."""
    same_both_ways([program("many_pieces"), what], times=1)


def test_record_locks_of_mapped_files(program, same_both_ways, tmp_path):
    """The kernel drops a file's locks with any descriptor of it that is closed: the runtime's own are not, while there are locks."""
    done = same_both_ways([program("record_locks"), tmp_path], times=5)
    assert "after exec: 1" in done.out and not done.said


def test_mappings_take_none_of_the_programs_descriptors(program, same_both_ways, tmp_path):
    assert "files 300, shared 300" in same_both_ways([program("descriptors"), "many", tmp_path]).out


def test_descriptors_that_the_program_closes_by_number(program, isolated, same_both_ways, tmp_path):
    """A thread that touches a mapping later may end there, and never reads another file; numbers used again are the program's."""
    assert "another" not in isolated([program("descriptors"), "closed", tmp_path]).out
    same_both_ways([program("descriptors"), "taken", tmp_path])


@pytest.mark.parametrize("what", ["gone", "handed on"])
def test_what_is_unmapped_is_gone_in_all_threads(program, same_both_ways, tmp_path, what):
    """Where it would be noticed at once, otherwise before it is too much."""
    same_both_ways([program("descriptors"), what, tmp_path], times=2)


@pytest.mark.parametrize("how", ["plain", "stack"])
def test_threads_that_write_to_a_file_mapping_first_and_at_once(program, same_both_ways, tmp_path, how):
    """What one fault is about to bring another thread's may have brought before; and two faults on one alternate stack overwrite each other."""
    assert same_both_ways([program("first_writes"), tmp_path / "file", how]).out == "missing: 0, alternate stack: 0\n"


def test_a_wait_for_a_lock_that_was_left_by_a_jump(program, same_both_ways, tmp_path):
    """It ends there: descriptors are not kept for it for ever."""
    same_both_ways([program("descriptors"), "jumped", tmp_path])


def test_private_mappings_by_the_thousand(program, isolated, tmp_path):
    """Each is remembered until it is unmapped, and no longer."""
    done = isolated([program("handlers"), "one after the other", tmp_path / "file"])
    assert (done.status, done.out) == (0, "done\n"), done.err


@pytest.mark.parametrize("name", ["sync", "cpp20", "memory", "family", "cancel", "signals"])
def test_allocators_preloaded_beside_it(program, isolated, runtime, name):
    """Allocator matrix: each of ours, and the peers this machine has, serves all address spaces."""
    ordinary = run([program(name)])
    for allocator in allocators(runtime):
        done = isolated([program(name)], preload=[allocator])
        assert (done.status, done.out) == (ordinary.status, ordinary.out), f"{allocator}: {done.err}"


def test_first_misses_in_an_allocator_preloaded_beside_it(program, isolated, runtime):
    """It blocks signals there and waits for its locks; who holds one waits for all threads to map what it has mapped."""
    for allocator in allocators(runtime):
        for _ in range(3):
            assert isolated([program("first_misses")], preload=[allocator]).out == "wrong: 0\n", allocator


def test_cache_of_unmapped_memory_for_ordinary_threads(program, runtime, tmp_path):
    for command in ([program("memory")], [program("places")], [program("files"), tmp_path / "file"], [program("family")]):
        ordinary = run(command)
        cached = run(command, preload=[runtime.with_name("libmortise-mapcache.so")])
        assert (cached.status, cached.out) == (ordinary.status, ordinary.out)


@pytest.mark.parametrize("when", ["before", "after"])
def test_locked_memory(program, same_both_ways, when):
    same_both_ways([program("locked_memory"), when])


def test_giving_memory_back_at_once(program, same_both_ways):
    same_both_ways([program("memory")], env={"MORTISE_THREADS_CACHE": "0"})


@pytest.mark.parametrize("when", [[], ["before the first thread"]])
def test_credentials_change_in_every_thread(program, same_both_ways, when):
    assert not same_both_ways([program("credentials"), *when]).said


def test_limits_are_the_whole_programs(program, same_both_ways):
    assert same_both_ways([program("limits")]).status == 0


def test_children_of_other_threads_are_waited_for(program, same_both_ways):
    same_both_ways([program("waits")], times=5)


def test_threads_that_wait_for_the_same_child(program, same_both_ways):
    assert same_both_ways([program("rival_waits")]).out == "reaped: 2000 0\n"


def test_any_child_of_any_thread(program, same_both_ways):
    assert same_both_ways([program("any_child")], times=5).out.endswith("descriptors: 0\nthe others: 90\n")


def test_children_that_outlive_their_thread(program, same_both_ways):
    assert same_both_ways([program("orphans")], times=10).out.endswith("none left: 1, told: 1\n")


def test_forking_without_a_descriptor_to_spare(program, same_both_ways):
    assert same_both_ways([program("no_descriptors")]).out == "1 7\n1 4\n1 3\n"


def test_who_takes_in_orphans_is_said_for_the_program(program, same_both_ways):
    same_both_ways([program("adopts")])


def test_children_that_the_program_traces(program, same_both_ways):
    """A debugger would wait for ever for the first stop."""
    assert same_both_ways([program("traced")], times=5).out == "stops: 3, status 7\nsilent: 1, status 9\n" * 3


def test_everybody_knows_the_parent(program, same_both_ways):
    same_both_ways([program("parents")])


def test_libc_knows_the_programs_number(program, same_both_ways):
    assert "sent: 1 \n" in same_both_ways([program("libc_names")]).out


@pytest.mark.parametrize("when", [[], ["before the first thread"]])
def test_barriers_reach_every_thread(program, same_both_ways, when):
    assert "barrier: 0\n" in same_both_ways([program("registered"), *when]).out


def test_a_thread_asks_for_the_death_of_the_parent(program, same_both_ways):
    assert "signal 15" in same_both_ways([program("parent_death")]).out


@pytest.mark.parametrize("who", ["thread", "main", "alone"])
@pytest.mark.parametrize("model", ["global-dynamic", "initial-exec"])
def test_libraries_loaded_late(program, same_both_ways, who, model):
    library = program("counting", "-shared", "-fPIC", f"-ftls-model={model}")
    assert same_both_ways([program("late_library"), library, who]).status == 0


def test_libraries_with_storage_for_each_thread_that_several_load_at_once(program, same_both_ways):
    """The loader's two locks would be taken in either order."""
    assert same_both_ways([program("loads_at_once"), program("counting", "-shared", "-fPIC")], times=5).out == "wrong: 0\n"


def test_a_library_whose_constructor_makes_a_thread(program, same_both_ways, runtime):
    """It runs before ours where an allocator behind us is to be the first."""
    library = program("made_by_constructor", "-shared", "-fPIC")
    for allocator in allocators(runtime):
        assert same_both_ways(["/bin/true"], times=1, preload=(allocator, library)).out == "answer: 42\n", allocator


def test_programs_that_are_started_under_the_filter_of_the_trap(program, same_both_ways):
    assert same_both_ways([program("starts_programs")], env={"MORTISE_THREADS_TRAP": "1"}).out == "status: 0\n"


def test_libraries_that_the_program_says_the_folder_of(program, same_both_ways):
    """The loader looks there for the library that calls, which must not be ours."""
    library = program("counting", "-shared", "-fPIC")
    folder = f"-Wl,--enable-new-dtags,-rpath,{library.parent}"
    assert same_both_ways([program("by_name", folder), library.name]).out == "next: 1011\n" * 3


@pytest.mark.parametrize("way", ["memory", "deleted", "unmapped"])
def test_libraries_without_a_name_or_where_a_file_was(program, same_both_ways, way):
    library = program("counting", "-shared", "-fPIC", "-Wl,-z,max-page-size=0x200000")    # too large for any gap but the files'
    assert same_both_ways([program("nameless_library"), way, library]).out.startswith("main: 1011\nthread: 1021\n")


def test_libraries_that_libc_loads(program, same_both_ways):
    assert same_both_ways([program("charsets")]).status == 0


@pytest.mark.parametrize("name", ["c11", "robust"])
def test_further_interfaces(program, same_both_ways, name):
    assert same_both_ways([program(name)], times=5).status == 0
