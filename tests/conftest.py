"""What tests of several folders share."""

import pytest


@pytest.fixture(scope="session")
def mortise(tmp_path_factory):
    """Runs the command line of this build, with a cache of its own."""
    from support.allocators import BUILD, ROOT, Ran, run

    python = next(p for p in (BUILD / "venv/bin/python", ROOT / "build/venv/bin/python") if p.exists())
    own = {"MORTISE_HOME": str(BUILD), "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), "PYTHONPATH": "", "COLUMNS": "160"}

    def call(*words, env: dict[str, str] | None = None, **more) -> Ran:
        return run([python, "-E", ROOT / "cli", *words], env=own | (env or {}), **more)

    return call
