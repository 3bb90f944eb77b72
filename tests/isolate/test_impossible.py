"""If these fail, a call succeeds that cannot, and the program crashes where it uses what it was given."""


def test_memory_that_there_cannot_be(program, same_both_ways):
    """What no address space has room for was given, and all files mapped later had no place."""
    assert same_both_ways([program("impossible")]).status == 0
