"""If these fail, what the kernel keeps or refuses for one process shows in a program whose threads are processes."""

import signal

import pytest


def test_memory_that_there_cannot_be(program, same_both_ways):
    """What no address space has room for was given, and all files mapped later had no place."""
    assert same_both_ways([program("impossible")]).status == 0


def test_memory_that_the_kernel_would_refuse(program, same_both_ways):
    """The runtime gave it without asking, and lengths beyond the end of addresses took all memory above along."""
    assert same_both_ways([program("too_much")]).status == 0


def test_a_stack_that_there_cannot_be(program, same_both_ways):
    """The next thread wrote over memory that the program had been given meanwhile."""
    assert same_both_ways([program("refused_stack")]).out.endswith("written by others: 0\n")


def test_a_stack_that_may_not_be_run_is_not_kept(program, same_both_ways):
    """The next thread ran on it, and crashed where it called a nested function."""
    assert same_both_ways([program("refused_rights", "-z", "execstack")]).out == "refused\n" * 2


def test_stacks_in_private_mappings_of_files(program, same_both_ways):
    """They are copied by the handler of faults, which had no stack to run on; of /dev/zero nothing could be forgotten."""
    assert same_both_ways([program("stacks_in_files")]).out == "e\nforgotten: 0\n"


def test_files_that_cannot_be_mapped(program, same_both_ways):
    """They were read instead of mapped, after what lay there was gone."""
    assert same_both_ways([program("refused_files")]).out.endswith("a file: mapped, 127\n")


def test_private_mappings_of_files_that_move(program, same_both_ways):
    assert same_both_ways([program("moved_files")]).out.endswith("mwz\n")


def test_rights_of_private_mappings_of_files(program, same_both_ways):
    """What had been written nobody could be kept from reading, and none could be run."""
    assert same_both_ways([program("file_rights")]).out.count("ran") == 6


def test_rights_of_files_mapped_before_the_first_thread(program, same_both_ways):
    """They changed for the calling thread alone, and so did what it wrote; code that was opened to writing could not be run for a moment."""
    assert same_both_ways([program("early_files")]).out.endswith("written: v\nits end: w\nran\nran\n")


def test_files_mapped_before_the_first_thread_that_move(program, same_both_ways):
    """They moved in the calling thread alone, and memory that was given out later was the file."""
    assert same_both_ways([program("early_moves")]).out == "ttga\nwapp\nfile: atmg, gp\n"


def test_rights_of_files_amid_memory(program, same_both_ways):
    """They were those of the memory around."""
    assert same_both_ways([program("rights_amid_memory")]).out == "fault\n" * 6 + "written\n"


def test_files_amid_memory_are_shared_with_children(program, same_both_ways):
    """A child had a copy of them, and what had been written of a private one could be written whatever its rights."""
    assert same_both_ways([program("forked_files")]).out == "prqr\nconstant: w\n"


def test_memory_over_files_mapped_before_the_first_thread(program, same_both_ways):
    """They were written to and emptied, files on a disk too; a file that madvise keeps from children crashed every thread."""
    assert same_both_ways([program("over_early_files")]).out.count("file f") == 8


def test_files_amid_memory_leave_memory(program, same_both_ways):
    """Nothing was there in the thread that had unmapped it, and it was given to the next who asked for memory."""
    assert same_both_ways([program("amid_memory")]).out.count("x" * 8) == 4


def test_what_is_moved_takes_no_memory_that_was_only_reserved(program, same_both_ways):
    assert same_both_ways([program("sparse_move")]).out.count("same 1, little after 1") == 3


def test_addresses_of_what_was_given_back(program, same_both_ways):
    assert "file mapped" in same_both_ways([program("used_again")], times=1).out


def test_notices_of_message_queues(program, same_both_ways):
    same_both_ways([program("queue_notice")])


def test_the_number_of_a_thread_means_the_program(program, same_both_ways):
    assert "by main 4" in same_both_ways([program("killed_by_number")]).out


def test_what_is_shown_of_arguments_and_environment(program, same_both_ways):
    """The kernel shows nothing of shared memory: ps and pgrep would not know the program."""
    out = same_both_ways([program("command_line"), "another", "", "two words"], env={"MARK": "there"}).out
    assert out.count("changed  two words, environment 1") == 3


def test_what_the_program_marks_its_memory_with(program, same_both_ways):
    """A password agent could be dumped and traced by its other threads' processes."""
    assert "thread: dumpable 0" in same_both_ways([program("marks")]).out


@pytest.mark.parametrize("first", [[], ["a thread"]])
def test_who_may_trace_the_program_may_trace_new_threads(program, isolated, first):
    """Yama keeps that for a process: a crash reporter saw main alone."""
    done = isolated([program("tracer"), *first])
    assert (done.status, done.out) == (-signal.SIGSYS, "0\nchild: 0\n")


def test_a_thread_changes_its_user_by_itself(program, isolated):
    """The kernel then forgets that its process ends with main's: it would outlive the program."""
    assert isolated([program("own_rights")]).out == "cannot agree: 1\nends with the program: 4\n"
