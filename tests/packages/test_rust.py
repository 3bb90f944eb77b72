"""The Rust crate as it would be published, in a stranger's program whose tests then run on it.

If one failed, a Rust program with our GlobalAlloc would not build, or would lose or mix up memory.
"""

import os
import re
import shutil
import subprocess

import pytest

from packages.conftest import STRANGERS, WATCHDOG_S, shell
from support.allocators import ROOT, Ran


def cargo(*words, cwd, **env) -> Ran:
    """cargo without a network: set-up has fetched what the crate is built with."""
    program = shutil.which("cargo")
    assert program, "cargo is not installed: run packaging/setup.sh packages"
    done = subprocess.run([program, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=WATCHDOG_S,
                          env={k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"} | {"CARGO_TERM_COLOR": "never", "CARGO_NET_OFFLINE": "true"} | env)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    """Packed by cargo and unpacked elsewhere: what is missing in the package is missing here."""
    folder = tmp_path_factory.mktemp("crate")
    (folder / ".cargo").mkdir()
    (folder / ".cargo/config.toml").write_text('[build]\ntarget-dir = "target"\n')  # one for all programs: the allocator is compiled once
    cargo("package", "--manifest-path", ROOT / "Cargo.toml", "--allow-dirty", "--no-verify", cwd=folder).ok()
    packed = next((folder / "target/package").glob("mortise-*.crate"))
    shell("tar", "-xzf", packed, cwd=folder).ok()
    next(folder.glob("mortise-*")).rename(folder / "mortise")
    shutil.copytree(STRANGERS / "rust", folder / "stranger")
    shutil.copytree(STRANGERS / "rust_plugin", folder / "plugin")
    return folder


@pytest.fixture(scope="module")
def stranger(crate):
    return crate / "stranger"


def test_a_rust_programs_tests_run_on_it(stranger):
    ran = cargo("test", cwd=stranger).ok()
    assert "5 passed; 0 failed" in ran.out
    assert cargo("run", "-q", cwd=stranger).ok().out == "hslab true\n"
    assert " hslab active" in cargo("run", "-q", cwd=stranger, MORTISE_VERBOSE="1").ok().err


def test_the_documented_line_adds_it_to_a_program(crate):
    program = crate / "program"
    cargo("new", "-q", program, cwd=crate).ok()
    line = re.search(r"`cargo (add [^`]+)`", (ROOT / "docs/install.md").read_text())[1]
    cargo(*line.split(), cwd=program).ok()
    cargo("build", "-q", cwd=program).ok()


def test_a_feature_names_the_allocator(stranger):
    assert cargo("run", "-q", "--features", "wfslab", cwd=stranger).ok().out == "wfslab true\n"


def test_two_allocators_are_refused_in_one_line(stranger):
    ran = cargo("build", "-q", "--features", "wfslab,hslab_hardened", cwd=stranger)
    assert ran.status != 0 and "one allocator per program, but the features wfslab, hslab_hardened are on" in ran.err


def test_neither_cmake_nor_the_cxx_library_is_needed(stranger):
    cargo("build", "-q", cwd=stranger).ok()
    needed = shell("readelf", "-d", stranger.parent / "target/debug/stranger", cwd=stranger).ok().out
    assert "libstdc++" not in needed and "libmortise" not in needed


def test_a_plug_in_that_is_closed_leaves_its_host_alive(crate):
    """The kernel looks at the restartable sequence that a thread ran last: it has to be there still."""
    plugin = crate / "plugin"
    cargo("build", "-q", cwd=plugin).ok()
    shell("cc", "-Wall", "-Wextra", "-Werror", "host.c", "-o", "host", cwd=plugin).ok()
    ran = shell(plugin / "host", crate / "target/debug/libplugin.so", cwd=plugin)
    assert (ran.status, ran.out) == (0, "alive\n"), ran


def test_the_example_of_its_page_runs(stranger):
    ran = cargo("test", "--doc", "--manifest-path", stranger.parent / "mortise/Cargo.toml", cwd=stranger).ok()
    assert "1 passed; 0 failed" in ran.out, ran.out
