"""If these fail, signals or timers of a threaded program reach other threads than they should with isolated threads, or none."""

import pytest


def test_a_signal_that_is_blocked_ends_nobody(program, same_both_ways, tmp_path):
    """Nor its threads: main ends by it when it unblocks it, and then the kernel alone sees to the others."""
    same_both_ways([program("death"), tmp_path / "file", "blocked", "whoever holds it"])


def test_timers_are_the_programs(program, same_both_ways):
    same_both_ways([program("timers")], times=10)


def test_a_deleted_timer_is_none_of_the_next_one(program, isolated):
    """With ordinary threads it may be on a busy machine: libc knows a timer by an address, which the next one may get."""
    for _ in range(5):
        assert isolated([program("retired_timers")]).out == "wrong: 0\n"


@pytest.mark.parametrize("what", ["reads", "maps", "writes"])
def test_mappings_while_signals_come(program, isolated, tmp_path, what):
    """A handler, or another thread's call to all, comes in the middle of a mapping: neither waits for the other for ever."""
    done = isolated([program("handlers"), what, tmp_path / "file"])
    assert (done.status, done.out) == (0, "done\n"), done.err


@pytest.mark.parametrize("what", ["maps", "jumps", "waits"])
def test_memory_is_mapped_while_signals_come(program, same_both_ways, what):
    """A handler maps as well, leaves by a jump, or waits for a thread that maps: no lock is held meanwhile."""
    same_both_ways([program("arenas"), what], times=2)


def test_actions_are_the_whole_programs(program, same_both_ways):
    same_both_ways([program("actions")], times=5)


def test_a_handler_from_before_that_blocks_all_signals(program, same_both_ways):
    assert same_both_ways([program("full_mask")]).out == "in a handler: x\n"


def test_handlers_that_block_what_libc_keeps_for_itself(program, same_both_ways):
    """Others wait for such a thread, and it for them."""
    assert same_both_ways([program("own_masks")]).out == "done\n"


def test_signals(program, same_both_ways):
    same_both_ways([program("signals")], times=5)


@pytest.mark.parametrize("way, status", [([], 0), (["exec"], 21)])
def test_a_handler_does_what_it_interrupts(program, same_both_ways, way, status):
    assert same_both_ways([program("publishers"), *way]).status == status


def test_what_threads_and_their_children_do_with_signals_of_a_terminal(program, same_both_ways):
    assert same_both_ways([program("terminal")], times=5).status == 0


def test_calls_that_any_handler_ends(program, same_both_ways):
    same_both_ways([program("interrupted")])


def test_a_thread_lets_in_what_main_blocks(program, same_both_ways):
    same_both_ways([program("let_in")], times=2)


def test_threads_that_let_a_signal_in_come_and_go(program, same_both_ways):
    """One that is passed on to a thread which ends just then would be lost with it."""
    assert same_both_ways([program("let_in_at_ends")]).out == "lost: 0\n"


def test_no_handler_runs_in_a_thread_that_was_joined(program, same_both_ways):
    assert same_both_ways([program("handlers_at_end")], times=5).out == "late: 0\n"


def test_a_handler_may_leave_a_thread_whose_function_has_not_begun(program, same_both_ways):
    assert same_both_ways([program("leaves_in_handler")]).out == "left: 50\n"


def test_a_handler_may_leave_a_thread_that_waits_for_a_condition(program, same_both_ways):
    assert same_both_ways([program("exits_amid_wait")]).out.endswith("destroyed 0\n")


def test_signals_that_are_queued_to_a_thread(program, same_both_ways):
    assert same_both_ways([program("queued_by_name")]).out.endswith("5, by the program 1\n")


def test_a_thread_looks_whether_a_signal_has_come(program, same_both_ways):
    """It lies in main's process, where the thread's own system call sees none."""
    assert same_both_ways([program("polled_signals")]).out == "seen: 200 of 200\n"


def test_a_thread_looks_while_the_signal_is_on_its_way(program, same_both_ways):
    assert same_both_ways([program("held_look")]).out == "seen: 10 of 10\n"


def test_main_blocks_what_ends_the_program(program, same_both_ways):
    assert same_both_ways([program("blocked_by_main")], times=2).status == -15


def test_main_waits_for_what_would_end_the_program(program, same_both_ways):
    assert same_both_ways([program("awaited_by_main")], times=1).out == "taken 1000\n"


def test_signals_that_come_at_once(program, same_both_ways):
    """One of them would be blocked for ever, or queued ones handled in another order."""
    assert same_both_ways([program("signals_at_once")]).out == "blocked: 0, wrong: 0\n"


def test_queued_signals_of_two_kinds_at_once(program, same_both_ways):
    assert same_both_ways([program("two_kinds")]).out == "wrong: 0\n"


def test_handlers_with_a_stack_of_their_own(program, same_both_ways):
    """Also one that waits for the end of a call: what it interrupts may have no room for it."""
    assert same_both_ways([program("own_stacks")]).out == "elsewhere: 0, wrong: 0\n" * 2


def test_signals_let_in_by_a_call(program, same_both_ways):
    """Their handlers may touch what is new to the thread; and such a call waits for a signalfd."""
    assert same_both_ways([program("masked_waits")], times=5).status == 0


def test_a_thread_waits_for_the_signals_of_the_program(program, same_both_ways):
    same_both_ways([program("sigwait")], times=10)


def test_a_thread_reads_the_signals_of_the_program(program, same_both_ways):
    same_both_ways([program("signal_files")], times=10)


@pytest.mark.parametrize("how", ["several", "exclusive", "many", "main", "thread"])
def test_threads_wait_in_epoll_for_the_signals_of_the_program(program, same_both_ways, how):
    """Whichever of them put the signalfd there, and whatever else is in it."""
    same_both_ways([program("epoll_signals"), how], times=10)


def test_a_signal_that_comes_when_the_time_is_over(program, same_both_ways):
    """It would be lost with the thread that has given up."""
    assert same_both_ways([program("late_signals")]).out == "lost: 0\n"


@pytest.mark.parametrize("how", ["read", "poll", "select"])
def test_a_thread_that_reads_a_signal_has_no_other_come(program, same_both_ways, how):
    """It would lie there until the thread reads again."""
    assert same_both_ways([program("read_in_turn"), how]).out == "late: 0\n"


def test_what_comes_beside_a_signal_to_the_thread_itself_is_others(program, same_both_ways):
    assert same_both_ways([program("taken_beside")], times=5).out == "lost: 0\n"


@pytest.mark.parametrize("how", ["sigwait", "read", "poll", "epoll"])
def test_a_cancelled_thread_takes_no_signals(program, same_both_ways, how):
    """They would be lost while it cleans up."""
    same_both_ways([program("cancelled_waits"), how], times=5)


def test_signals_while_as_many_are_queued_as_may_be(program, same_both_ways):
    """The kernel delivers one of the old kind all the same, without what was said with it: a thread that waited for it never had it."""
    same_both_ways([program("full_queue")])


def test_calls_to_all_threads_while_as_many_signals_are_queued_as_may_be(program, same_both_ways):
    """The runtime's own signals had no place in the queue: whoever called sigaction waited for ever."""
    same_both_ways([program("full_queue_calls")])


def test_forks_while_as_many_signals_are_queued_as_may_be(program, same_both_ways):
    """The limit of a child was eight less for good where main's was set back just after it had been made."""
    assert same_both_ways([program("full_queue_forks")]).out == "with another limit: 0\n"


@pytest.mark.parametrize("how", ["waits", "reads", "handles"])
def test_more_signals_than_may_be_queued(program, same_both_ways, how):
    """What was taken from main's queue was lost when the sender was quicker to use its place."""
    assert same_both_ways([program("queue_overflow"), how]).out == "received: 20000\n"


def test_those_of_a_higher_number_come_later(program, same_both_ways):
    """What nobody let in at the moment was not looked for during a second, and those behind it were."""
    assert same_both_ways([program("kept_order")]).out == "out of order: 0\n"


@pytest.mark.parametrize("how", ["waits", "reads", "handles", "lets-in"])
def test_those_of_a_number_come_in_order(program, same_both_ways, how):
    """What nobody would have for a moment went back behind others; what was let in for a moment only never came."""
    assert same_both_ways([program("in_order"), how]).out == "taken: 400, out of order: 0\n"


@pytest.mark.parametrize("how", ["takes", "handles"])
def test_what_no_thread_would_have_is_mains(program, same_both_ways, how):
    """The watchdog had taken some, which came behind the others."""
    assert same_both_ways([program("left_to_main"), how]).out == "wrong: 0\n"


def test_a_handler_jumps_out_of_a_wait(program, same_both_ways):
    """What the thread had waited for still went to it."""
    assert same_both_ways([program("jumps_out_of_wait")]).out == "taken: 5\n"


def test_threads_end_while_as_many_signals_are_queued_as_may_be(program, same_both_ways):
    """What such a thread had been passed and not taken was lost with it."""
    assert same_both_ways([program("full_queue_ends")]).out == "lost: 0\n"


@pytest.mark.parametrize("how", ["wait", "read", "handle"])
def test_signals_are_shared_out_among_threads(program, same_both_ways, how):
    """Who had not yet taken the first of them was sent all that followed, while others waited."""
    assert same_both_ways([program("shared_out"), how]).out == "idle: 0, out of order: 0\n"


def test_each_thread_takes_one(program, same_both_ways):
    """What a thread had been sent and not taken when it ended came behind the others."""
    assert same_both_ways([program("one_each")]).out == "wrong: 0\n"


@pytest.mark.parametrize("how", ["waits", "handles"])
def test_exec_amid_signals(program, same_both_ways, how):
    """What a thread had been sent and not taken was lost with it."""
    assert same_both_ways([program("exec_pending"), how], times=5).out == "lost: 0, twice: 0, out of order: 0\n"


@pytest.mark.parametrize("how", ["waits", "reads", "handles"])
def test_a_signal_tells_what_it_was_sent_with(program, same_both_ways, how):
    """That of a file came without the file, that of a child without its status, and both as if by kill()."""
    assert "the file 1" in same_both_ways([program("as_sent"), how], times=1).out


def test_main_handles_what_a_thread_handles(program, same_both_ways):
    """What the watchdog had taken while main's handler ran came behind the others, when that returned."""
    assert same_both_ways([program("between_handlers")]).out == "out of order: 0\n"


def test_the_lower_number_comes_first(program, same_both_ways):
    """What the watchdog had in hand was passed on in the order in which it had come."""
    assert same_both_ways([program("lower_first")], times=1).out == "higher number first: 0\n"


def test_main_has_ended(program, same_both_ways):
    """Its signals ended the program, or ran their handlers there."""
    assert same_both_ways([program("main_has_ended")]).out == "waited for: 1\n"


def test_a_busy_thread_holds_up_its_own_signals_only(program, same_both_ways):
    """As many as the watchdog keeps in hand kept it from taking any of a higher number."""
    assert same_both_ways([program("busy_with_one")]).out == "the higher number waited for all: 0\n"


def test_what_a_call_of_main_does_not_take_is_the_threads(program, same_both_ways):
    """Main had been sent both, and kept the second."""
    assert same_both_ways([program("looks_once")]).out == "main handled: 1, the thread had one: 1\n"
