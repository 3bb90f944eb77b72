"""The wheel, built by pip and installed into a fresh virtual environment. If it failed, `pip install .` would be of no use."""

import os
import subprocess
import sys

import pytest

from packages.conftest import WATCHDOG_S
from support.allocators import NAMES, ROOT, Ran


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment that holds the wheel and what it needs; nothing in it knows of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    python = folder / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=WATCHDOG_S)
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", ROOT], check=True, timeout=2 * WATCHDOG_S, cwd=folder)

    def call(*words, **env) -> Ran:
        clean = {"PATH": f"{folder}/venv/bin:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "160"}
        done = subprocess.run([str(word) for word in words], cwd=folder, env=clean | env, capture_output=True, text=True, timeout=WATCHDOG_S)
        return Ran(done.returncode, done.stdout, done.stderr)

    call.folder = folder
    return call


def test_python_runs_on_it(environment):
    count = "import re; text = open('/proc/self/maps').read(); print(sorted(set(re.findall('libmortise-.*so', text)))); print(len([0] * 10 ** 6))"
    ran = environment("mortise", "run", "--", "python", "-c", count).ok()
    assert ran.out == "['libmortise-hslab.so']\n1000000\n"


def test_every_allocator_and_helper_came_along(environment):
    for name in NAMES:
        path = environment("mortise", "path", name).ok().out.strip()
        assert path.startswith(str(environment.folder)) and os.path.exists(path)
    assert environment("mortise", "doctor", "--", "sort").ok()
    assert environment("mortise", "profile", "--", "sort", "/dev/null").ok()


def test_it_builds_allocators(environment):
    (environment.folder / "mine.toml").write_text((ROOT / "examples/mine.toml").read_text())
    environment("mortise", "build", "mine.toml", "-o", "libmine.so").ok()
    assert environment("mortise", "run", "--alloc", "./libmine.so", "--", "sort", "/dev/null").ok()
