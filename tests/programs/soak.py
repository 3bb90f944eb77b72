"""Runs servers and run-times for minutes on an allocator and fails when memory grows or an answer differs.

Each program does rounds of equal work. It runs once without preload and once on each allocator. Memory is read after
every round: the first third of the time is warm-up, and median and crest of the last third may lie above those of the
middle third by no more than 5 % or 4 MiB, whichever is more, beyond what the program itself grows without preload. The
answers of each round must be those of the run without preload.
"""

import argparse
import json
import sys
import time
from bisect import bisect_right
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles

from programs.soakers import SOAKERS
from programs.stage import Failed
from programs.theatre import Subject, Theatre, chosen_subjects, open_theatre

FEWEST_ROUNDS = 12
GROWTH_RATIO = 0.05
GROWTH_BYTES = 4 << 20
MIB = 1 << 20


@dataclass
class Course:
    """One program on one library over time: seconds since its start and bytes after each round, and the answers."""

    seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def third(self, number: int, tenths: int = 5) -> float:
        """The memory that so many tenths of the rounds stay below in one third of the time (0, 1 or 2): the median."""
        begin, end = (self.seconds[-1] * part / 3 for part in (number, number + 1))
        sizes = [size for at, size in zip(self.seconds, self.memory, strict=True) if begin <= at <= end]
        sizes = sizes or [self.memory[max(bisect_right(self.seconds, end) - 1, 0)]]  # one round took all of it: what was before it
        return quantiles(sizes, n=10, method="inclusive")[tenths - 1] if len(sizes) > 1 else sizes[0]

    @property
    def growth(self) -> float:
        """Bytes from the middle to the last third. A leak raises crests and median alike; whether freed memory had
        already gone back at the moment of a reading moves only one of them, so the lesser rise counts."""
        return min(self.third(2, tenths) - self.third(1, tenths) for tenths in (5, 9))


def judge(found: Course, reference: Course) -> list[str]:
    """What is wrong with a course, in words; nothing when all is well."""
    complaints = []
    for number, (before, after) in enumerate(zip(reference.answers, found.answers, strict=False)):
        if before != after:
            complaints.append(f"round {number} answers {after[:80]!r}, without preload {before[:80]!r}")
            break
    allowed = max(GROWTH_RATIO * found.third(1), GROWTH_BYTES) + max(0.0, reference.growth)
    if found.growth > allowed:
        complaints.append(f"memory grows by {found.growth / MIB:.1f} MiB from the middle to the last third, "
                          f"allowed are {allowed / MIB:.1f}")
    return complaints


def run(theatre: Theatre, name: str, library: Path | None, seconds: float) -> Course:
    """Plays rounds for the given time, at least a dozen."""
    course = Course()
    with theatre.stage(name, library) as stage, SOAKERS[name](stage) as load:
        start = time.monotonic()
        while len(course.answers) < FEWEST_ROUNDS or time.monotonic() - start < seconds:
            course.answers.append(load.play(len(course.answers)))
            course.memory.append(load.memory())
            course.seconds.append(time.monotonic() - start)
    return course


def row(name: str, where: str, course: Course, verdict: str) -> str:
    thirds = "".join(f"{course.third(number) / MIB:10.1f}" for number in range(3))
    return f"{name:11}{where:14}{len(course.answers):7}{thirds}{max(course.memory) / MIB:10.1f}  {verdict}"


def soak(theatre: Theatre, subjects: list[Subject], names: list[str], seconds: float) -> list[dict]:
    """Runs every program without preload and on every subject; prints a row each and returns them."""
    print(f"{'program':11}{'allocator':14}{'rounds':>7}{'MiB 1/3':>10}{'2/3':>10}{'3/3':>10}{'peak':>10}", flush=True)
    rows = []
    for name in names:
        try:
            reference = run(theatre, name, None, seconds)
        except Failed as failure:
            print(f"{name:11}{'none':14}cannot be judged: {failure}", flush=True)
            rows.append({"program": name, "allocator": None, "complaints": [str(failure)], **asdict(Course())})
            continue
        print(row(name, "none", reference, ""), flush=True)
        rows.append({"program": name, "allocator": None, "complaints": [], **asdict(reference)})
        for subject in subjects:
            try:
                course = run(theatre, name, theatre.library(subject), seconds)
                complaints = judge(course, reference)
            except Failed as failure:
                course, complaints = Course([0], [0]), [str(failure)]
            print(row(name, subject.name, course, "; ".join(complaints) or "level"), flush=True)
            rows.append({"program": name, "allocator": subject.name, "complaints": complaints, **asdict(course)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long each program runs on each library (60)")
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME", help="only this one, or these")
    parser.add_argument("--library", action="append", default=[], metavar="PATH", help="this preloadable library")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="set beside the preload")
    parser.add_argument("--program", action="append", choices=sorted(SOAKERS), help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round of every course to this file")
    chosen = parser.parse_args()
    subjects = chosen_subjects(chosen.allocator, chosen.library, every_program=True)
    settings = dict(setting.split("=", 1) for setting in chosen.setting)
    with open_theatre(settings) as theatre:
        rows = soak(theatre, subjects, chosen.program or list(SOAKERS), chosen.seconds)
    if chosen.json:
        told = {"schema": "mortise.soak/1", "seconds": chosen.seconds, "courses": rows}
        chosen.json.write_text(json.dumps(told, indent=1))
    return 1 if any(each["complaints"] for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
