"""Options of the programs' tests, and the pairs of program and library that they make."""

import os
from collections.abc import Iterator

import pytest

from programs.catalogue import PROGRAMS
from programs.theatre import Theatre, chosen_subjects, open_theatre


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("programs", "real programs under preload (tests/programs)")
    group.addoption("--allocator", action="append", metavar="NAME", help="only this allocator, with every program")
    group.addoption("--library", action="append", metavar="PATH", help="this preloadable library, with every program")
    group.addoption("--setting", action="append", metavar="NAME=VALUE", help="set this beside the preload; repeatable")
    group.addoption("--all-programs", action="store_true", help="every program on every allocator")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" not in metafunc.fixturenames:
        return
    # The options are unknown when pytest was started on a folder above; then the environment can ask for all.
    option = metafunc.config.getoption
    subjects = chosen_subjects(option("--allocator", default=None) or [], option("--library", default=None) or [],
                               option("--all-programs", default=False) or "MORTISE_TEST_ALL" in os.environ)
    if "program" in metafunc.fixturenames:
        pairs = [pytest.param(PROGRAMS[name], subject, id=f"{name}-{subject.name}")
                 for name in PROGRAMS for subject in subjects if name in subject.programs]
        metafunc.parametrize(("program", "subject"), pairs)
    else:
        metafunc.parametrize("subject", subjects, ids=lambda subject: subject.name)


@pytest.fixture(scope="session")
def theatre(request: pytest.FixtureRequest) -> Iterator[Theatre]:
    settings = request.config.getoption("--setting", default=None) or []
    with open_theatre(dict(setting.split("=", 1) for setting in settings)) as place:
        yield place
