"""What tests of several folders share."""

import signal

import pytest

# Whoever starts the tests in the background or as a service may have had these ignored, and programs would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


# The files whose tests take longest, first: begun last, one of them would run alone in the end while other cores rest.
LONGEST = ("test_sanitizers.py", "test_aarch64.py", "test_shipped_seeds.py", "test_programs.py", "test_life.py", "test_command_lines.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def mortise(tmp_path_factory):
    """Runs the command line of this build, with a cache of its own."""
    from support.allocators import BUILD, ROOT, Ran, run

    python = next(p for p in (BUILD / "venv/bin/python", ROOT / "build/venv/bin/python") if p.exists())
    own = {"MORTISE_HOME": str(BUILD), "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), "PYTHONPATH": "", "COLUMNS": "160"}

    def call(*words, env: dict[str, str] | None = None, **more) -> Ran:
        return run([python, "-E", ROOT / "cli", *words], env=own | (env or {}), **more)

    return call
