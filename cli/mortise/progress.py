"""What a comparison says while it runs, on stderr: a line that moves on a terminal, a line now and then elsewhere."""

import time
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mortise import doctor, screen


class Line:
    """Shows how much of the budget is gone and what is running now."""

    def __init__(self, budget_s: float):
        self.budget_s = budget_s
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} % of the budget"),
            TimeElapsedColumn(),
            TextColumn("at most {task.fields[left]:.0f} s to go"),
            console=screen.progress,
            transient=True,
        )
        self.task = self.bar.add_task("starting", total=budget_s, left=budget_s)
        self.last = 0.0

    def __enter__(self) -> "Line":
        if screen.progress.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def preflight(self, found: doctor.Diagnosis, arms: int, settings: Any) -> None:
        notes = [f.text for f in found.findings if f.weight in (doctor.WARNS, doctor.NOTES)]
        self.say(f"preflight  {found.program}: malloc comes from {found.as_shipped} as shipped")
        for note in notes:
            self.say(f"           {note}")
        self.say(
            f"running    {f'{arms} arms and a control' if arms > 1 else 'one arm'}, order shuffled in each round, "
            f"at most {settings.budget_s:.0f} s, seed {settings.seed}"
        )

    def say(self, text: str) -> None:
        screen.progress.print(text, markup=False, soft_wrap=True)

    def so_far(self, document: dict[str, Any], elapsed: float) -> None:
        """A first word long before the last one."""
        from mortise import standing

        for number, text in enumerate(standing.lines(document, elapsed)):
            self.say(f"{'           ' if number else 'so far     '}{text}")

    def decided(self, document: dict[str, Any], name: str, axis: str, elapsed: float) -> None:
        """A verdict as soon as there is one; the table says it again, with the control beside it."""
        from mortise import analysis, formats
        from mortise.figures import as_shown

        result = {"time": analysis.time_result, "memory": analysis.memory_result}[axis]
        found = result(document, document["arms"][name])
        if found:
            found = as_shown(document, axis, found)
            within = f"{formats.ratio(found['ratio'])} [{found['low']:.3f},{found['high']:.3f}]"
            against = f"{name} against {document['reference']}"
            self.say(f"decided    {against}: {axis} {analysis.word(found)}, {within}, after {found['rounds']} rounds and {elapsed:.0f} s")

    def __call__(self, document: dict[str, Any], doing: str, elapsed: float) -> None:
        left = max(self.budget_s - elapsed, 0.0)
        self.bar.update(self.task, completed=min(elapsed, self.budget_s), description=doing, left=left)
        if not screen.progress.is_terminal and time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            self.say(f"           {doing} ({elapsed:.0f} of {self.budget_s:.0f} s)")
