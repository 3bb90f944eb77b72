"""The allocators on aarch64, cross-built and run under qemu-user. Should it not build or run there, half of today's servers and
all of today's telephones would be left out.

This shows that everything builds, starts and serves; not its memory ordering, since the emulator runs on this machine's stronger
one (the explorer shows that: tests/model), and not restartable sequences, which qemu-user does not have.
"""

import os
import subprocess
import sys

import pytest
from elftools.elf.elffile import ELFFile

from support.allocators import ROOT

BUILD = ROOT / "build/aarch64"
EMULATOR = "qemu-aarch64 -L /usr/aarch64-linux-gnu"
WHOLE = os.environ.get("MORTISE_TEST_ALL") == "1"
SHIPPED = sorted(path.stem for path in (ROOT / "include/mortise/allocators").glob("*.hpp"))
NAMES = SHIPPED if WHOLE else ["hslab", "tlsfcc", "wfslab"]
CONTRACTS = ["sizes", "errors", "resizing", "operators", "introspection", "foreign", "exports"]
IN_PROCESS = ["test-property-threads", "test-life-in_process"] + ["test-conformance-stacks"] * WHOLE
PROPERTY = [] if WHOLE else ["--seed=1", "--operations=50000"]  # five seeds of a million take the emulator half an hour
LIVES = ["threads", "signals", "late", "movers"]
# The rest needs the machine itself (single steps, limits of the address space, resident memory, filters), or forks a program with
# threads, which makes qemu-user 7.2 fail an assertion of its own.
EMULATED = "order or signals_in_all or signal_handler or (opened_late and not fork_handlers) or grow_take_nobodys"


def have(target: str) -> bool:
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "query", target], capture_output=True)
    return listed.returncode == 0


@pytest.fixture(scope="session")
def built():
    """The part of the tree that these tests need. Allocators that this machine's own instructions are part of are not there."""
    subprocess.run(["cmake", "--preset", "aarch64"], cwd=ROOT, check=True, capture_output=True)
    names = [name for name in NAMES if have(f"mortise-{name}")]
    assert {"hslab", "tlsfcc"} <= set(names)
    targets = [f"{what}-{name}" for name in names for what in ("mortise", "describe")]
    targets += [f"program-contract-{name}" for name in CONTRACTS] + [f"program-life-{name}" for name in LIVES] + IN_PROCESS + ["test-property-stacks"]
    done = subprocess.run(["ninja", "-C", BUILD, *targets], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-3000:]
    return names


def test_libraries_are_of_that_machine(built):
    for name in built:
        with (BUILD / f"lib/libmortise-{name}.so").open("rb") as f:
            assert ELFFile(f).get_machine_arch() == "AArch64"


def test_contract(built):
    pattern = "^(contract\\.[a-z]+\\.(" + "|".join(built) + ")|" + "|".join(t.replace("test-", "").replace("-", "\\.", 1) for t in IN_PROCESS) + ")$"
    done = subprocess.run(["ctest", "--test-dir", BUILD, "--output-on-failure", "-j", str(os.cpu_count()), "-R", pattern],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and "100% tests passed" in done.stdout, done.stdout[-3000:]
    assert f"out of {len(built) * len(CONTRACTS) + len(IN_PROCESS)}" in done.stdout, done.stdout[-300:]


def test_structures_keep_to_their_model(built):
    done = subprocess.run([*EMULATOR.split(), BUILD / "tests/test-property-stacks", *PROPERTY], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout, done.stdout[-3000:]


def test_life(built):
    """The tests of tests/life, on the programs of that build."""
    environment = os.environ | {"MORTISE_BUILD": str(BUILD), "MORTISE_EMULATOR": EMULATOR}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/life/test_life.py", "-k", EMULATED],
                          cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:]
