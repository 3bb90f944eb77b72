"""Conformance and threads once more, compiled with each sanitizer: a race or a stray access would be found here first."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "tsan": {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"},
    "asan": {"ASAN_OPTIONS": "detect_leaks=0 abort_on_error=1",  # with UndefinedBehaviorSanitizer in the same build
             "UBSAN_OPTIONS": "halt_on_error=1 print_stacktrace=1"},
}
# Logical threads all run on one: ThreadSanitizer has nothing to say about them. Where it keeps its shadow there is no room for the
# window of sub-heaps, iamalloc's and others'.
PROGRAMS = {
    "tsan": {"threads": ["--gtest_filter=-*iamalloc*:*sub_heaps*"], "guarded_threads": []},
    "asan": {"threads": [], "stacks": ["--seed=7", "--operations=50000"]},
}


def run(*command: str, **environment: str) -> None:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}"


@pytest.mark.parametrize("preset", OPTIONS)
def test_stacks_are_clean(preset: str) -> None:
    build = ROOT / "build" / preset
    run("cmake", "--preset", preset, "-DMORTISE_TESTS=ON")
    run("ninja", "-C", str(build), "-j2", *(f"test-property-{name}" for name in PROGRAMS[preset]))
    for name, arguments in PROGRAMS[preset].items():
        run(str(build / f"tests/test-property-{name}"), "--gtest_brief=1", *arguments, **OPTIONS[preset])
