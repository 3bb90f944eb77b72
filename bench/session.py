"""One benchmark: cells in interleaved rounds, each run recorded as it ends, so that --resume can go on."""

import dataclasses
import hashlib
import json
import os
import random
import subprocess
import time

import peers
import programs
from peers import ROOT, Arm

BENCH = ROOT / "build" / "bench"
PROGRAMS = ROOT / "build" / "bench-bin"
TIMEOUT_S = 60


@dataclasses.dataclass(frozen=True)
class Cell:
    """A workload with its thread count; real programs have none."""

    group: str
    workload: str
    threads: int = 0
    is_large: bool = False  # takes so much memory that each arm first gets what it needs from the host, uncounted

    @property
    def label(self) -> str:
        return f"{self.workload}/{self.threads}" if self.threads else self.workload


def cells_of(suite: dict, run: str, only: list[str]) -> list[Cell]:
    """The cells of a kind of run: the quick one takes one thread count a workload."""
    synthetic = [
        Cell("synthetic", name, threads, entry.get("large", False))
        for name, entry in suite["synthetic"].items()
        for threads in ([entry["quick"]] if run == "quick" else entry["threads"])
    ]
    cells = synthetic + [Cell("real", name) for name in suite["real"]]
    return [cell for cell in cells if not only or cell.workload in only or cell.label in only]


class Session:
    """Runs of one benchmark, kept in build/bench/NAME.runs.jsonl."""

    def __init__(self, name: str, arms: dict[str, Arm], say):
        self.arms, self.say = arms, say
        self.inputs = BENCH / "inputs"
        self.commands = programs.commands(self.inputs)
        BENCH.mkdir(parents=True, exist_ok=True)
        self.file = BENCH / f"{name}.runs.jsonl"
        self.runs: list[dict] = []
        if self.file.exists():
            self.runs = [json.loads(line) for line in self.file.read_text().splitlines()]
        self.missing: dict[str, str] = {}

    def available(self, cells: list[Cell]) -> list[Cell]:
        """The cells whose program is installed; the others are named with the reason."""
        kept = []
        for cell in cells:
            tool = self.commands[cell.workload][0] if cell.group == "real" else str(PROGRAMS / cell.workload)
            if subprocess.run(["sh", "-c", 'command -v "$0"', tool], capture_output=True).returncode == 0:
                kept.append(cell)
            else:
                self.missing[cell.workload] = f"{tool} is not installed (run packaging/setup.sh bench)"
        return kept

    def measure(self, cell: Cell, arm: Arm, rng: random.Random) -> dict:
        """One run of one cell on one arm."""
        if cell.group == "real":
            _, command, environment = self.commands[cell.workload]
            programs.fresh(self.inputs)
        else:
            command, environment = [str(PROGRAMS / cell.workload), "--threads", str(cell.threads)], {}
        out = BENCH / "measure.json"
        out.unlink(missing_ok=True)
        # The environment's size shifts the stack; drawn anew each run, its effect becomes noise that intervals cover.
        variables = environment | arm.environment | {"LD_PRELOAD": arm.library, "BENCH_PAD": "x" * rng.randrange(4096)}
        launch = [
            str(PROGRAMS / "measure"),
            "--out",
            str(out),
            "--timeout",
            str(TIMEOUT_S),
            "--expect",
            arm.serves or os.path.realpath(arm.library),
        ]
        launch += [part for item in variables.items() for part in ("--set", "=".join(item))] + ["--"] + command
        answer_file = BENCH / "answer"
        with open(answer_file, "wb") as answer:
            launcher = subprocess.Popen(launch, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.DEVNULL)
            if cell.workload == "redis":
                programs.drive_redis(self.inputs, launcher)
            launcher.wait()
        facts = json.loads(out.read_text()) if out.exists() else {"exit_status": launcher.returncode}
        return facts | self._answer(cell, answer_file.read_bytes())

    @staticmethod
    def _answer(cell: Cell, text: bytes) -> dict:
        """What the run printed, reduced to what must be the same on every arm."""
        if cell.group == "synthetic":
            try:
                line = json.loads(text)
                return {"answer": line["checksum"], "operations": line["ops"]}
            except (ValueError, KeyError):
                return {"answer": "none"}
        if cell.workload in programs.UNSTEADY:
            return {"answer": "unsteady"}
        return {"answer": hashlib.sha256(text).hexdigest()[:16]}

    def run(self, cells: list[Cell], rounds: int, budget_s: float) -> bool:
        """Interleaved rounds until all are done or the budget is used up; True when all are done."""
        done = {(run["round"], run["workload"], run["threads"], run["arm"]) for run in self.runs}
        failed = {(run["workload"], run["threads"], run["arm"]) for run in self.runs if run.get("failed")}
        started = time.monotonic()
        with open(self.file, "a") as kept:
            for number in range(rounds):
                rng = random.Random(number)
                order = rng.sample(cells, len(cells))
                for cell in order:
                    self.say(f"round {number + 1} of {rounds}, {time.monotonic() - started:.0f} s: {cell.label}")
                    names = rng.sample(sorted(self.arms), len(self.arms))
                    keys = {name: (cell.workload, cell.threads, name) for name in names}
                    left = [name for name, key in keys.items() if (number, *key) not in done and key not in failed]
                    for name in left:
                        if time.monotonic() - started > budget_s:
                            return False
                        # Not counted: whoever comes first pays for what the others find: files, and memory that the host had taken back.
                        if name == left[0] or cell.is_large:
                            self.measure(cell, self.arms[name], rng)
                        run = self._record(number, cell, name, rng)
                        if run.get("failed"):
                            failed.add(keys[name])
                        kept.write(json.dumps(run) + "\n")
                        kept.flush()
        return True

    def _record(self, number: int, cell: Cell, name: str, rng: random.Random) -> dict:
        facts = self.measure(cell, self.arms[name], rng)
        run = {
            "round": number,
            "group": cell.group,
            "workload": cell.workload,
            "threads": cell.threads,
            "arm": name,
        } | facts
        if facts.get("timed_out"):
            run["failed"] = f"no end after {TIMEOUT_S} s"
        elif facts["exit_status"] != 0:
            run["failed"] = f"exit status {facts['exit_status']}"
        elif not facts["expected_seen"]:
            run["failed"] = "the allocator is not in the process"
        self.runs.append(run)
        return run


def pairs_table(arms: dict[str, Arm]) -> dict[str, list[dict]]:
    """Nanoseconds per malloc/free pair for each arm that serves its own process, by size."""
    table = {}
    for name, arm in arms.items():
        try:
            peers.prove(arm, PROGRAMS)
        except peers.Missing:  # a preloaded library that is gone is passed over in silence, and glibc would be measured
            continue
        done = subprocess.run(
            [PROGRAMS / "pair"],
            env=os.environ | arm.environment | {"LD_PRELOAD": arm.library},
            text=True,
            capture_output=True,
        )
        if done.returncode == 0:
            table[name] = json.loads(done.stdout)["pairs"]
    return table
