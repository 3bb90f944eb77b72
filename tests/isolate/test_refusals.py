"""If these fail, a program that cannot be isolated crashes, hangs or misbehaves instead of being told why."""

import os
import struct
import subprocess

import pytest

from .conftest import HERE, ROOT, build, run

UNSUPPORTED = 78
TOLD = {
    "own-clone": "the program makes threads by clone(CLONE_VM) of its own",
    "libaio-before": "device or kernel object bound to one address space: unsupported",
    "userfaultfd": "userfaultfd: device or kernel object bound to one address space: unsupported",
    "device": "mmap of a device: device or kernel object bound to one address space: unsupported",
    "inline-futex": "sleeps on a private futex at 0x",
    "inline-futex-in-main": "thread 0 sleeps on a private futex at 0x",
}


@pytest.mark.parametrize("way", TOLD)
def test_told_in_one_line(program, isolated, way):
    done = isolated([program("cannot"), way])
    assert len(done.said) == 1 and TOLD[way] in done.said[0], done.err
    assert done.status == UNSUPPORTED


@pytest.mark.parametrize("way, what", [("io_uring", "io_uring"), ("libaio", "libaio context"), ("key", "protection key")])
def test_what_a_program_may_do_without(program, isolated, way, what):
    """It has another way where the system has none."""
    done = isolated([program("cannot"), way])
    assert done.said == [f"mortise threads: {what}: kernel object bound to one address space: answered ENOSYS"]
    assert (done.status, done.out) == (0, f"{way} 1 1\nwent on\n")


def test_the_user_may_insist(program, isolated):
    done = isolated([program("cannot"), "io_uring"], env={"MORTISE_THREADS_ANYWAY": "1"})
    assert len(done.said) == 1 and done.status == 0 and "went on" in done.out


def test_private_futexes_can_be_trapped(program, isolated):
    done = isolated([program("cannot"), "inline-futex"], env={"MORTISE_THREADS_TRAP": "1"})
    assert not done.said and done.status == 0 and "woken" in done.out


def test_requests_with_the_trap(program, same_both_ways, tmp_path):
    """libc blocks all signals in the threads that it makes for them, by a system call of its own."""
    same_both_ways([program("requests"), tmp_path / "file"], env={"MORTISE_THREADS_TRAP": "1"})


def test_openmp_with_the_trap(program, isolated):
    done = isolated([program("openmp", "-fopenmp")], env={"MORTISE_THREADS_TRAP": "1", "OMP_NUM_THREADS": "4"})
    assert not done.said and done.status == 0 and done.out == "sum 499999500000, threads 4\n"


def test_too_many_threads(program, isolated):
    done = isolated([program("cannot"), "many"], env={"MORTISE_THREADS_MAX": "8"})
    assert done.status == 0 and done.out == "made 7 refused 5\n"
    assert len(done.said) == 1 and "raise MORTISE_THREADS_MAX" in done.said[0]


@pytest.mark.parametrize("call", ["setsid", "setpgid", "raise(SIGSTOP)"])
def test_calls_that_reach_one_thread_are_told_of(program, isolated, call):
    done = isolated([program("one_process"), call])
    assert done.said == [f"mortise threads: {call} reaches the calling thread's process only, not the other threads"]
    assert done.status == 0 and done.out == "went on\n"


@pytest.mark.parametrize("library, option, name", [("asan", "address", "AddressSanitizer"), ("tsan", "thread", "ThreadSanitizer")])
def test_sanitizers(program, isolated, library, option, name):
    asked = subprocess.run(["gcc", f"-print-file-name=lib{library}.so"], capture_output=True, text=True, check=True)
    done = run([program("sync", f"-fsanitize={option}")],
               preload=[asked.stdout.strip(), isolated.runtime], env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.status == UNSUPPORTED and len(done.said) == 1 and name in done.said[0]


def test_unknown_glibc_keeps_ordinary_threads(program, isolated, tmp_path):
    strange = build(HERE / "programs/strange_glibc.c", tmp_path / "strange.so", ("-shared", "-fPIC"))
    done = isolated([program("sync")], preload=[strange])
    assert done.status == 0 and len(done.said) == 1
    assert "thread descriptor not recognised; running with ordinary threads" in done.said[0]
    assert isolated([program("apart")], preload=[strange]).out.startswith("own process: 0")


def test_limited_address_space_keeps_ordinary_threads(program, isolated):
    done = isolated(["prlimit", "--as=4000000000", program("sync")])
    assert done.status == 0 and len(done.said) == 1
    assert "ulimit -v" in done.said[0] and done.said[0].endswith("running with ordinary threads")


def test_wrong_setting(program, isolated):
    done = isolated([program("sync")], env={"MORTISE_THREADS_MAX": "many"})
    assert done.status == 0 and len(done.said) == 1
    assert "MORTISE_THREADS_MAX=many is not a whole number from 2 to 1024; using 1024" in done.said[0]


def test_ordinary_threads_on_request(program, isolated):
    done = isolated([program("apart")], env={"MORTISE_THREADS": "ordinary"})
    assert not done.said and done.out.startswith("own process: 0")


def mortise(*words, **env):
    return run([ROOT / "build/venv/bin/python", "-m", "mortise", "threads", *words], cwd=ROOT,
               env={"PYTHONPATH": str(ROOT / "cli")} | env)


def test_the_command_runs_a_program(program):
    done = mortise("--", program("apart"))
    assert done.out == "own process: 1\nshared counter: 4\n" and done.status == 0


def test_the_command_takes_the_setting_of_threads(program):
    """It set the variable to its own default, whatever was in it."""
    done = mortise("--", program("cannot"), "many", MORTISE_THREADS_MAX="8")
    assert "8 threads live at once" in done.err
    done = mortise("--max", "9", "--", program("cannot"), "many", MORTISE_THREADS_MAX="8")
    assert "9 threads live at once" in done.err
    done = mortise("--", program("apart"), MORTISE_THREADS_MAX="abc")
    assert done.status == 0 and "MORTISE_THREADS_MAX=abc is not a whole number from 2 to 1024; using 1024" in done.err


def test_the_command_keeps_the_status(program):
    assert mortise("--", program("ends"), "exit-in-thread").status == 3


def test_the_command_leaves_no_signal_ignored():
    """Of the standard ones, compared with a program that the test starts: whoever runs the tests may have some ignored."""
    words = ["grep", "SigIgn", "/proc/self/status"]
    here = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    own, plain = (int(text.split()[1], 16) & (1 << 31) - 1 for text in (mortise("--", *words).out, here))
    assert own == plain


def test_static_and_set_user_id_programs(program, tmp_path):
    done = mortise("--", program("sync", "-static"))
    assert done.status == UNSUPPORTED and "statically linked: cannot isolate threads" in done.err
    done = mortise("--", program("sync", "-fsanitize=address"))
    assert done.status == UNSUPPORTED and "is built with a sanitizer" in done.err and len(done.err.splitlines()) == 1
    copy = tmp_path / "copy"
    copy.write_bytes(program("sync").read_bytes())
    copy.chmod(0o4755)
    done = mortise("--", copy)
    assert done.status == UNSUPPORTED and "set-user-id" in done.err and len(done.err.splitlines()) == 1
    copy.chmod(0o755)
    try:
        os.setxattr(copy, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))  # effective: raw sockets
    except PermissionError:
        return  # only root may grant them
    done = mortise("--", copy)
    assert done.status == UNSUPPORTED and "capabilities" in done.err and len(done.err.splitlines()) == 1
