"""If these fail, a thread is not made as the program asked, or waits in another way than glibc's."""


def test_attributes_and_defaults(program, same_both_ways):
    assert "runs 0" in same_both_ways([program("attributes")]).out


def test_scheduling_that_is_not_all_in_the_attributes(program, same_both_ways):
    assert same_both_ways([program("priorities")]).out.count("Resource deadlock avoided") == 2


def test_threads_name_each_other(program, same_both_ways):
    """The kernel lets only a process itself change its name."""
    assert same_both_ways([program("names")]).out.count("Success") == 4


def test_a_handler_does_not_wake_a_thread_that_waits_for_a_condition(program, same_both_ways):
    assert same_both_ways([program("no_wake_up")]).out == "Success, changed 1\n" * 2


def test_locks_that_nobody_releases(program, isolated):
    """Not compared: with ordinary threads a priority ceiling needs rights that the system may not give."""
    answers = [line.split(": ")[1] for line in isolated([program("in_vain")]).out.splitlines()]
    assert answers == ["Connection timed out"] * 3 + ["Invalid argument"]


def test_code_on_stacks(program, same_both_ways):
    """Nested functions of C, and procedures within procedures of Fortran."""
    assert same_both_ways([program("nested")]).status == 0


def test_an_alternate_stack_is_unwound(program, same_both_ways):
    """Where it lay above the thread's own, what was on both was left as it was."""
    out = same_both_ways([program("unwound")]).out
    assert out == "handler function thread cancelled 0\nhandler function thread cancelled 1\n" * 2
