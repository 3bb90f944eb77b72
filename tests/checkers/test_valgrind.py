"""Should valgrind lose sight of blocks under our malloc, nobody could look for memory errors where they happen."""

import re
import subprocess

import pytest

from support.allocators import BUILD, environment, library, program

ANNOTATED = BUILD / "lib/libmortise-hslab_annotated.so"
# Ours is not libc's: valgrind is told to leave it in place instead of putting its own malloc before it.
VALGRIND = ["valgrind", "--soname-synonyms=somalloc=nouserintercepts", "--error-exitcode=9", "--leak-check=full",
            "--show-leak-kinds=all", "--errors-for-leak-kinds=all"]


def checked(which, preload=ANNOTATED):
    env = environment(None) | {"LD_PRELOAD": str(preload)}
    return subprocess.run([*VALGRIND, program("checkers", "crimes"), which], env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("which, says", [
    ("beyond", r"Invalid write of size 1[\s\S]*0 bytes after a block of size 100 alloc'd"),
    ("before", r"Invalid read of size 1[\s\S]*20 bytes after a block of size 100 alloc'd"),
    ("after", r"Invalid read of size 1[\s\S]*10 bytes inside a block of size 100 free'd"),
    ("twice", r"Invalid free\(\)"),
    ("uninitialised", r"Conditional jump or move depends on uninitialised value"),
    ("leak", r"100 bytes in 1 blocks are (definitely lost|still reachable)"),
])
def test_each_mistake_is_found_where_it_happens(which, says):
    done = checked(which)
    assert re.search(says, done.stderr), done.stderr
    assert "main (crimes.c:" in done.stderr
    assert done.returncode != 0


def test_a_program_without_mistakes_is_clean():
    done = checked("none")
    assert done.returncode == 0, done.stderr
    assert re.search(r"ERROR SUMMARY: 0 errors", done.stderr), done.stderr


def test_without_annotations_nothing_is_found():
    """What the annotations are for: the same mistake on plain hslab passes unseen."""
    assert checked("beyond", library("hslab")).returncode == 0


def test_the_annotated_library_serves_the_program():
    done = subprocess.run(["/bin/true"], env=environment(None) | {"LD_PRELOAD": str(ANNOTATED), "MORTISE_VERBOSE": "1"},
                          capture_output=True, text=True)
    assert "hslab active" in done.stderr
