"""An installed copy, moved once, and a clean place for the projects of strangers: nothing there leads back to the tree."""

import os
import subprocess
from pathlib import Path

import pytest

from support.allocators import BUILD, ROOT, Ran

if not os.environ.get("MORTISE_TEST_ALL"):  # minutes: the wheel compiles every allocator, the other fetches Debian's Python packages
    collect_ignore = ["test_wheel.py", "test_debian_whole.py"]
STRANGERS = Path(__file__).parent / "strangers"
WATCHDOG_S = 600


def shell(*words, cwd: Path, **env: str) -> Ran:
    """A command in an environment that knows nothing of the tree."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8", "TMPDIR": str(cwd)}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=clean | env, capture_output=True, text=True, timeout=WATCHDOG_S)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """The prefix of an installed copy. It is installed into one place and moved to another, so nothing in it may be absolute."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "first"], check=True, capture_output=True, timeout=WATCHDOG_S)
    return (folder / "first").rename(folder / "moved")


@pytest.fixture(scope="session")
def libdir(installed) -> Path:
    return next(installed.rglob("libmortise-hslab.so")).parent


@pytest.fixture(scope="session")
def command(installed):
    """The command line of the installed copy; its Python packages are those of the project's environment."""
    python = next(p for p in (BUILD / "venv/bin/python", ROOT / "build/venv/bin/python") if p.exists())

    def call(*words, cwd: Path, **env: str) -> Ran:
        return shell(python, "-B", installed / "bin/mortise", *words, cwd=cwd, **env)

    return call


@pytest.fixture(scope="session")
def debs(tmp_path_factory):
    """By name; made in a place of their own."""
    folder = tmp_path_factory.mktemp("deb")
    subprocess.run(["cpack", "-G", "DEB", "-B", folder], cwd=BUILD, check=True, capture_output=True, timeout=WATCHDOG_S)
    return {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
