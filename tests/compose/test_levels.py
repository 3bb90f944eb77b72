"""The hit path is right at every level of optimisation: a program that builds a heap into itself chooses its own.

A compiler that mixes up what a restartable sequence hands over gives the program a pointer that is none. gcc 12 did at -O1, and at
each level where it keeps variables apart.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HANGS_S = 600  # turns a hang into a failure, nothing else
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
WAYS = [(compiler, level) for compiler in ("g++", "clang++-16") for level in LEVELS] + [("g++", "-O2 -fno-tree-coalesce-vars")]


@pytest.mark.parametrize("compiler, level", WAYS)
def test_hits_are_right(compiler: str, level: str, tmp_path: Path) -> None:
    program = tmp_path / "levels"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *level.split(), f"-I{ROOT / 'include'}"]
    built = subprocess.run([compiler, *flags, str(ROOT / "tests/compose/levels.cpp"), "-o", str(program)], text=True, capture_output=True)
    assert built.returncode == 0, built.stderr[-3000:]
    ran = subprocess.run([str(program)], text=True, capture_output=True, timeout=HANGS_S)
    assert ran.returncode == 0, f"exit status {ran.returncode}: {ran.stdout}"
    assert ran.stdout.startswith("restarts "), ran.stdout
