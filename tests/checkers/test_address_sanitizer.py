"""Should nobody say that AddressSanitizer is blind on our malloc, a test run with it would find nothing and be believed."""

import subprocess

import pytest

from support.allocators import BUILD, ROOT, run

WARNING = "mortise[hslab] warning: AddressSanitizer sees no block of this heap: link one of the two\n"


def linked(tmp_path, *how) -> str:
    program = tmp_path / "program"
    subprocess.run(["cc", "-g", "-O0", "-fno-builtin", "-w", *how, ROOT / "tests/checkers/crimes.c", *linking(how), "-o", program], check=True)
    return str(program)


def linking(how) -> list:
    if "-DLIBRARY" in how:
        return [f"-L{BUILD}/lib", f"-Wl,-rpath,{BUILD}/lib", "-Wl,--no-as-needed", "-lmortise-hslab"]
    return ["-Wl,--whole-archive", BUILD / "lib/libmortise-hslab.a", "-Wl,--no-whole-archive"]


def test_the_archive_under_it_says_that_nothing_is_watched(tmp_path):
    done = run([linked(tmp_path, "-fsanitize=address"), "beyond"], env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.status == 0 and done.err == WARNING


@pytest.mark.parametrize("how", ([], ["-static"], ["-fsanitize=undefined"]))
def test_without_it_nothing_is_said(how, tmp_path):
    done = run([linked(tmp_path, *how), "none"])
    assert done.status == 0 and done.err == ""


def test_a_shared_library_stands_behind_it(tmp_path):
    """The sanitizer's malloc serves, and finds what it is there to find."""
    done = run([linked(tmp_path, "-fsanitize=address", "-DLIBRARY"), "beyond"], env={"MORTISE_VERBOSE": "1"})
    assert done.status != 0 and "heap-buffer-overflow" in done.err and " hslab inactive pid=" in done.err and "warning" not in done.err
