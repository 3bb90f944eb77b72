"""The command line as it is built, and compositions built once for several tests."""

import os
from pathlib import Path

import pytest

from support.allocators import BUILD, ROOT, Ran, run


@pytest.fixture(scope="session")
def mortise(tmp_path_factory):
    """Runs the command line of this build, with a cache of its own."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {"MORTISE_HOME": str(BUILD), "XDG_CACHE_HOME": str(cache), "PYTHONPATH": "", "COLUMNS": "160"}

    def call(*words, env: dict[str, str] | None = None, **more) -> Ran:
        return run([BUILD / "venv/bin/python" if (BUILD / "venv").exists() else ROOT / "build/venv/bin/python", "-E", ROOT / "cli", *words],
                   env=environment | (env or {}), **more)

    return call


@pytest.fixture(scope="session")
def built(mortise, tmp_path_factory):
    """The library of one of the compositions in examples/."""
    folder, known = tmp_path_factory.mktemp("built"), {}

    def library(name: str, suffix: str = ".so") -> Path:
        if (name, suffix) not in known:
            target = folder / f"lib{name}{suffix}"
            mortise("build", ROOT / "examples" / f"{name}.toml", "-o", target).ok()
            known[name, suffix] = target
        return known[name, suffix]

    return library


assert os.environ.get("LD_PRELOAD") is None, "these tests preload libraries themselves"
