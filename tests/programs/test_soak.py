"""If one of these fails, a long run would let a leak or a wrong answer pass, or call a steady program leaking."""

from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from programs import soak, soakers
from programs.soak import MIB, Course, judge
from programs.theatre import open_theatre

SCRIPTS = Path(__file__).parent / "scripts"


def course(sizes_mib: list[float], answers: list[str] | None = None) -> Course:
    return Course([float(second) for second in range(1, len(sizes_mib) + 1)], [int(size * MIB) for size in sizes_mib],
                  answers or ["same"] * len(sizes_mib))


STEADY = course([100.0] * 30)


def test_a_level_course_passes():
    assert judge(STEADY, STEADY) == []


def test_growth_while_warming_up_passes():
    assert judge(course([10.0 * min(step, 9) for step in range(30)]), STEADY) == []


def test_noise_around_a_level_passes():
    assert judge(course([100.0 + 15 * (step % 3) for step in range(30)]), STEADY) == []


def test_a_level_of_crests_and_troughs_passes_wherever_the_readings_fall():
    assert judge(course([60.0 if step % 5 == 0 or step > 22 else 15.0 for step in range(30)]), STEADY) == []


def test_a_round_that_takes_a_third_of_the_time_is_no_growth():
    held_up = course([100.0] * 30)
    held_up.seconds = [float(second if second < 10 else second + 40) for second in range(30)]
    assert judge(held_up, STEADY) == []


def test_steady_growth_is_told_with_its_size():
    (told,) = judge(course([100.0 + 2 * step for step in range(30)]), STEADY)
    assert "memory grows by 2" in told and "allowed are" in told


def test_what_the_program_itself_grows_is_not_held_against_the_allocator():
    growing = course([100.0 + 2 * step for step in range(30)])
    assert judge(growing, growing) == []


def test_a_wrong_answer_is_told_with_its_round():
    wrong = course([100.0] * 30, ["same"] * 4 + ["other"] * 26)
    assert judge(wrong, STEADY) == ["round 4 answers 'other', without preload 'same'"]


@pytest.mark.parametrize(("mode", "complaints"), [("keeps level", 0), ("leaks", 1)])
def test_a_planted_leak_is_found(monkeypatch, mode, complaints):
    @contextmanager
    def start(stage):
        with stage.session("python3", SCRIPTS / "leak.py", mode) as session:
            yield soakers.Load(lambda number: session.ask("same"), lambda: soakers.memory_of(session.process.pid))

    monkeypatch.setitem(soakers.SOAKERS, "leak", start)
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=count().__next__))  # rounds of milliseconds are as long as the machine likes
    with open_theatre() as theatre:
        found = soak.run(theatre, "leak", None, seconds=0)
    assert len(judge(found, STEADY)) == complaints
