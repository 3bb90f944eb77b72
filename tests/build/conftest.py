"""Compositions built once for several tests."""

from pathlib import Path

import pytest

from support.allocators import ROOT


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

