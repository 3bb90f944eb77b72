"""The wait-free protocols of wfslab under spin, a second checker beside the explorer. If this failed, a block could be lost or handed
out twice, or a stopped thread could stop others - in the protocol itself, whatever the code."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "spin"
SEEDS = [("wait_free_bin", "MARK_FIRST"), ("wait_free_bin", "NO_WAKE"), ("wait_free_bin", "TORN_TAKE"),
         ("wait_free_bin", "COUNT_BEFORE_BIT"), ("wait_free_pool", "TORN_CLAIM")]


def check(model: str, where: Path, *defines: str) -> tuple[int, int]:
    """(errors, states) of an exhaustive search."""
    assert shutil.which("spin"), "spin is not installed: run packaging/setup.sh test"
    flags = [f"-D{d}" for d in defines]
    subprocess.run(["spin", "-a", *flags, MODELS / f"{model}.pml"], cwd=where, check=True, capture_output=True, text=True)
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=1024", "-o", "pan", "pan.c"], cwd=where, check=True)
    out = subprocess.run(["./pan", "-m200000"], cwd=where, capture_output=True, text=True).stdout
    assert (errors := re.search(r"errors: (\d+)", out)) and (states := re.search(r"(\d+) states, stored", out)), out
    assert "Search not completed" not in out or int(errors[1]), out
    return int(errors[1]), int(states[1])


@pytest.mark.parametrize("model", ["wait_free_bin", "wait_free_pool"])
def test_the_protocol_holds(model: str, tmp_path: Path) -> None:
    errors, states = check(model, tmp_path)
    print(f"{model}: {states} states")
    assert errors == 0 and states > 1000


@pytest.mark.parametrize(("model", "seed"), SEEDS)
def test_seeded_bugs_are_found(model: str, seed: str, tmp_path: Path) -> None:
    assert check(model, tmp_path, seed)[0] > 0
