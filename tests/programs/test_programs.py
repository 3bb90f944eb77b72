"""If one of these fails, a program that people run does not work, or works differently, on one of our allocators."""

import difflib

import pytest

from programs.catalogue import PROGRAMS
from programs.stage import Failed, Step, describe_status


def difference(expected: Step, found: Step) -> str:
    """The first thing in which two steps differ, or nothing."""
    if expected.status != found.status:
        return (f"{found.name}: {describe_status(found.status)}, without preload {describe_status(expected.status)}\n"
                f"{found.output[-1000:]}{found.errors[-2000:]}")
    for stream in ("output", "errors"):
        before, after = getattr(expected, stream).splitlines(), getattr(found, stream).splitlines()
        if before != after:
            lines = list(difflib.unified_diff(before, after, "without preload", "with preload", lineterm="", n=1))[:40]
            return f"{found.name}: its {stream} differ\n" + "\n".join(line[:300] for line in lines)
    return ""


def test_program(program, subject, theatre):
    """The program behaves as without preload, and every process of it had the library."""
    expected = theatre.reference(program)
    try:
        found = theatre.play(program, theatre.library(subject))
    except Failed as failure:
        pytest.fail(f"{program.name} on {subject.name}: {failure}", pytrace=False)
    assert [step.name for step in found] == [step.name for step in expected]
    for before, after in zip(expected, found, strict=True):
        told = difference(before, after)
        if told:
            pytest.fail(f"{program.name} on {subject.name}: {told}", pytrace=False)


def test_the_library_serves_the_calls(subject, theatre):
    """Loaded is not enough: what a program and its libraries call must be bound to the library, and to nothing else."""
    library = theatre.library(subject)
    with theatre.stage("bindings", library) as stage:
        stage.proof.detail = "files,bindings"
        stage.run("sqlite3", ":memory:", "select 1", env={"LD_BIND_NOW": "1"})
        served = stage.proof.bindings()
    for function in ("malloc", "calloc", "realloc", "free"):
        assert served.get(function) == {str(library)}, f"{function} is served by {served.get(function)}"


def test_there_are_twenty_five():
    """The list is the promise: a program leaves it only by a decision, not by an accident of imports."""
    assert len(PROGRAMS) == 25
