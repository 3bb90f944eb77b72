"""Should a program of the build that the documentation names not do what it says there, a proof could not be repeated."""

import os
import re
import subprocess

import pytest

from support.allocators import ROOT, environment

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
STEPS_LONG = "mortise-count check"  # every instruction is stepped: minutes


def documented():
    """Each such line with the folder that its block enters first; not those with a placeholder."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in FENCE.findall(page.read_text()):
            folder = ROOT
            for line in block.splitlines():
                if found := re.fullmatch(r"cd (build/\S+)", line):
                    folder = ROOT / found[1]
                is_one = re.match(r"(MORTISE_\w+=\S+ )?(build/tests/|\./mortise-)", line) and "..." not in line
                if is_one and (STEPS_LONG not in line or "MORTISE_TEST_ALL" in os.environ):
                    yield pytest.param(folder, line, id=f"{page.stem}: {line[:90]}")


LINES = list(documented())


def test_there_are_such_lines():
    assert len(LINES) >= 5


@pytest.mark.parametrize("folder, line", LINES)
def test_it_runs(folder, line):
    env = {key: value for key, value in environment(None).items() if key != "MORTISE_TEST_ALL"}
    done = subprocess.run(["bash", "-ec", line], cwd=folder, env=env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0 and done.stdout, done.stdout[-1000:] + done.stderr[-1000:]
