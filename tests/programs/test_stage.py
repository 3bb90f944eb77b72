"""If one of these fails, the suite of programs would call a run good that was not on the allocator, or not equal."""

from pathlib import Path

import pytest

from programs.theatre import PARTS, share
from programs.catalogue import PROGRAMS
from programs.proof import Proof
from programs.stage import Failed, Stage

LIBC = "libc.so.6"


@pytest.fixture
def library() -> Path:
    """Any shared object will do: the C library itself, under the path by which this process has it."""
    with open("/proc/self/maps") as maps:
        return Path(next(line.split()[-1] for line in maps if line.rstrip().endswith(LIBC)))


@pytest.fixture
def stage(tmp_path: Path, library: Path) -> Stage:
    (tmp_path / "shelf").mkdir()
    return Stage(tmp_path / "room", library, Proof(tmp_path / "traces"), tmp_path / "shelf")


def test_a_loaded_library_is_proven(stage):
    assert stage.run("echo", "here") == b"here\n"
    stage.check_proof()


def test_a_library_that_cannot_be_loaded_is_noticed(stage):
    stage.library = Path("/nonexistent/libmortise-none.so")
    stage.run("true")
    with pytest.raises(Failed, match="did not map /nonexistent/libmortise-none.so"):
        stage.check_proof()


def test_a_child_that_drops_the_library_is_noticed(stage, tmp_path):
    copy = tmp_path / "libcopy.so"
    copy.write_bytes(stage.library.read_bytes())
    copy.chmod(0o755)
    stage.library = copy
    stage.run("sh", "-c", "unset LD_PRELOAD; /bin/true; exit 0")
    with pytest.raises(Failed, match=r"\(/bin/true\) did not map"):
        stage.check_proof()


def test_a_program_without_a_loader_is_noticed(stage):
    stage.pids.append(1)
    with pytest.raises(Failed, match="process 1 left no trace"):
        stage.check_proof()


def test_a_missing_program_names_the_cure(stage):
    with pytest.raises(Failed, match="not installed; run: packaging/setup.sh programs"):
        stage.run("no-such-program")


def test_a_crash_is_a_status_of_the_transcript(stage):
    stage.run("sh", "-c", "kill -SEGV $$")
    assert stage.transcript[-1].status == -11


def test_a_failure_without_preload_is_no_reference(stage):
    stage.library = None
    with pytest.raises(Failed, match="fails without preload: exit status 3"):
        stage.run("sh", "-c", "exit 3")


def test_a_server_that_ends_by_itself_is_noticed(stage):
    with pytest.raises(Failed, match="ended before it was ready"), stage.serve("false", ready=lambda: False):
        pass


def test_the_shares_of_all_allocators_cover_every_program():
    assert set().union(*(share(turn, PARTS) for turn in range(PARTS))) == set(PROGRAMS)
    assert all(len(share(turn, PARTS)) == len(PROGRAMS) // PARTS for turn in range(2 * PARTS))
