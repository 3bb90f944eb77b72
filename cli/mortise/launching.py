"""One run: the program started by the small launcher, watched by the probe, and everything that was learnt about it."""

import contextlib
import functools
import hashlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mortise import arms as arms_
from mortise import elf, endings, home, reach
from mortise.errors import RunFailed

SAMPLE_MS = 10
LAST_BYTES = 2000
NO_SUCH_COMMAND = 127  # a shell's exit status
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PER_REPEAT = ("wall_s", "user_s", "sys_s", "cpu_s", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches",
              "instructions", "cycles")  # fmt: skip


@dataclass
class Service:
    """How to use a program that does not end by itself: when it is ready, what to do with it, how to end it."""

    ready: str | None = None
    load: str | None = None
    stop: str | None = None
    patience_s: float = 30.0
    stop_s: float = 60.0  # how long `stop` may take,
    farewell_s: float = 60.0  # and how long it itself may take to end when it was told to


@dataclass
class Request:
    """One run as it is asked for."""

    argv: list[str]
    arm: arms_.Arm
    memory: bool = False
    count: bool = False  # instructions and cycles, which costs some percent where a program sleeps often: never timed
    padding: int = 0
    repeat: int = 1  # how often main runs, in copies of the loaded program; the figures are of one time
    stdin: Path | None = None
    service: Service | None = None
    env: dict[str, str] = field(default_factory=dict)
    baseline: bool = False
    timeout_s: float = 3600.0
    keep_output: bool = True  # all that it prints, and not only what tells it from something else: it may be more than there is memory
    trace: Path | None = None  # where the trace goes; such a run is never timed
    calls: Path | None = None  # where the counts of system calls go; such a run is never timed
    latency: dict[str, str] | None = None  # the variables of the latency layer, which then stands in front


@dataclass
class Outcome:
    """One run as it went: `facts` is what the JSON keeps, the rest is needed while measuring."""

    facts: dict[str, Any]
    stdout: bytes
    stderr_tail: str
    load_output: str
    series: list[tuple[float, int]]
    probed: list[tuple[str, str]]  # executable, library of malloc
    peak_before_main: int


class Launcher:
    """Runs requests one at a time, each in a folder of its own. In it lies what is measured, and an empty one that `{tmp}` names: programs
    may ask for nothing in theirs (initdb), and do with it what they like.
    """

    def __init__(self) -> None:
        self.program = home.helper("mortise-launcher")
        self.probe = home.helper("mortise-probe.so")

    def run(self, request: Request) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="mortise-") as name:
            room_of(Path(name)).mkdir()
            return self._run(request, Path(name))

    def _run(self, request: Request, folder: Path) -> Outcome:
        argv = [word.replace("{tmp}", str(room_of(folder))) for word in (request.arm.argv or request.argv)]
        path = elf.resolve(argv[0])
        command = [str(self.program), "--stdout", str(folder / "stdout"), "--stderr", str(folder / "stderr")]
        if request.stdin is not None:
            command += ["--stdin", str(request.stdin)]
        if request.memory:
            command += ["--memory", str(SAMPLE_MS), "--series", str(folder / "series")]
        if request.count:
            command += ["--count", "1"]
        if request.memory or request.count or request.latency:  # which are not timed as a whole, and may be followed
            command += ["--unreached", str(folder / "unreached")]
        for key, value in self.environment(request, folder).items():
            command += ["--set", f"{key}={value}"]
        for name in ("probe", "stdout", "stderr"):
            (folder / name).touch()
        reading, writing = os.pipe()
        if request.calls:
            counter = str(home.helper("mortise-calls"))
            path, argv = Path(counter), [counter, str(request.calls), str(path), *argv]
        command += ["--result", str(writing), "--", str(path), *argv]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # what comes while the launcher starts waits until it can be ended
        try:
            try:
                process = subprocess.Popen(command, pass_fds=(writing,), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            except OSError as e:  # words that just fit behind this command may not behind the launcher
                os.close(reading)
                os.close(writing)
                raise RunFailed(f"'{path}' could not be started: {e.strerror}") from None
            with process, os.fdopen(reading, encoding="utf-8") as result:
                try:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                    os.close(writing)
                    return self._follow(request, folder, process, result)
                except BaseException:
                    process.terminate()
                    process.wait()
                    raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def environment(self, request: Request, folder: Path) -> dict[str, str]:
        """Every arm carries the probe, so that every arm's loader does the same work but for the allocator itself."""
        changed = dict(request.arm.env) | request.env
        trace = str(home.helper("mortise-trace.so")) if request.trace else None
        layer = str(home.helper("mortise-latency.so")) if request.latency else None
        changed["LD_PRELOAD"] = arms_.preload(trace, layer, request.arm.library, str(self.probe), had=changed.get("LD_PRELOAD"))
        changed |= request.latency or {}
        if request.trace:
            changed["MORTISE_TRACE"] = str(request.trace)
        changed["MORTISE_PROBE"] = str(folder / "probe")
        if request.baseline:
            changed["MORTISE_PROBE_BASELINE"] = "1"
        if request.repeat > 1:
            changed["MORTISE_PROBE_REPEAT"] = str(request.repeat)
        changed["MORTISE_PAD"] = "x" * request.padding
        return changed

    def _follow(self, request: Request, folder: Path, process: subprocess.Popen, result: Any) -> Outcome:
        try:
            pid = json.loads(result.readline() or "{}").get("pid", 0)
            used: dict[str, Any] | None = {}
            if request.service and not request.baseline:
                used = self._use(request, folder, pid)
                await_end(process, request)
            else:
                wait(process, request.timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(
                f"'{request.arm.name}' ran longer than {request.timeout_s:g} s and was stopped"
            ) from None
        line = result.readline()
        if not line:
            complaint = (process.stderr.read() if process.stderr else b"").decode(errors="replace").strip()
            raise RunFailed(
                complaint or f"'{request.arm.name}' could not be run: the launcher ended with {process.returncode}"
            )
        if used is None:
            raise RunFailed(ended_early(request, folder, json.loads(line)["exit_status"]))
        return self._outcome(request, folder, json.loads(line), used)

    def _use(self, request: Request, folder: Path, pid: int) -> dict[str, Any] | None:
        """Waits for a server, loads it, ends it. Its clients run without the arm's allocator. None where it ended before it was ready."""
        service = request.service
        assert service is not None
        give_up = time.monotonic() + service.patience_s
        said = ""
        while service.ready and (complaint := self._complaint(service.ready, folder, pid, give_up - time.monotonic())) is not None:
            said = complaint or said
            if not Path(f"/proc/{pid}").exists():
                return None
            if time.monotonic() > give_up:
                raise RunFailed(
                    f"'{request.arm.name}' was not ready after {service.patience_s:.0f} s: "
                    f"'{service.ready}' never succeeded{endings.tail(said)}"
                )
            time.sleep(0.02)
        used: dict[str, Any] = {}
        if service.load:
            start = time.monotonic()
            load = self._shell(service.load, folder, pid, request.timeout_s)
            output = load.stdout if load.returncode == 0 else said_by(load)
            used = {"wall_s": time.monotonic() - start, "load_status": load.returncode, "load_output": output}
        if service.stop:
            try:
                self._shell(service.stop, folder, pid, service.stop_s)
            except subprocess.TimeoutExpired:
                told = f"'{service.stop}', which is to end '{request.arm.name}', went on for {service.stop_s:.0f} s itself"
                raise RunFailed(told) from None
        else:
            with contextlib.suppress(ProcessLookupError):  # it ended while it was loaded
                os.kill(pid, signal.SIGTERM)
        return used

    def _complaint(self, command: str, folder: Path, pid: int, patience_s: float) -> str | None:
        """What it says when it fails; None where it succeeds by then: who asks a server that is not yet there may wait for ever."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            asked = self._shell(command, folder, pid, max(patience_s, 0.0))
            if asked.returncode == NO_SUCH_COMMAND:  # and it will not come to be there
                raise RunFailed(f"'{command}' cannot be run{endings.tail(said_by(asked))}")
            return None if asked.returncode == 0 else said_by(asked)
        return ""

    def _shell(self, command: str, folder: Path, pid: int, timeout_s: float) -> subprocess.CompletedProcess:
        """A session of its own: what the shell has started ends with it, where this is interrupted or takes too long. Reads nothing, as the
        program: what this process was given the first run would take from all others.
        """
        text = ["/bin/sh", "-c", command.replace("{tmp}", str(room_of(folder))).replace("{pid}", str(pid))]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # what comes while the shell starts waits until it can be ended
        opens = functools.partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        try:
            with subprocess.Popen(text, **pipes, start_new_session=True, preexec_fn=opens) as client:
                try:
                    opens()
                    printed, complaints = client.communicate(timeout=timeout_s)
                except BaseException:
                    kill_session(client.pid)
                    raise
        finally:
            opens()
        return subprocess.CompletedProcess(text, client.returncode, printed, complaints)

    def _outcome(self, request: Request, folder: Path, facts: dict[str, Any], used: dict[str, Any]) -> Outcome:
        facts["cpu_s"] = round(facts["user_s"] + facts["sys_s"], 6)
        if used:
            facts["life_s"] = facts["wall_s"]
            facts["wall_s"] = round(used["wall_s"], 9) if "wall_s" in used else facts["wall_s"]
            facts["load_status"] = used.get("load_status", 0)
        for what in ("instructions", "cycles"):  # -1 where the processor or the kernel lets nobody count
            facts[what] = facts[what] if facts[what] >= 0 else None
        for what in PER_REPEAT if request.repeat > 1 else ():
            if facts[what] is not None:
                facts[what] = round(facts[what] / request.repeat, 9 if what.endswith("_s") else None)
        demand_room(request, folder)
        stdout = (folder / "stdout").read_bytes() if request.keep_output else b""
        with (folder / "stdout").open("rb") as printed:
            facts["stdout_sha256"] = hashlib.file_digest(printed, "sha256").hexdigest()
        facts["padding"] = request.padding
        probed, before_main = read_probe(folder / "probe")
        promised = [arms_.served_by(request.arm, library) for _, library in probed]
        facts["served"] = None if not promised or None in promised else sum(map(bool, promised)) / len(promised)
        if not promised and request.arm.preloads:
            facts["served"] = 0.0
        facts["malloc_from"] = sorted({library for _, library in probed})
        facts["unreached"] = reach.read(folder / "unreached", facts["cpu_s"])
        if facts["served"] is not None and facts["unreached"]:
            facts["served"] *= 1 - facts["unreached"]["cpu_share"]
        return Outcome(
            facts,
            stdout,
            last_of(folder / "stderr"),
            used.get("load_output", ""),
            read_series(folder / "series"),
            probed,
            before_main,
        )


def kill_session(leader: int) -> None:
    """Its group, and those that a shell gives to what it starts (set -m). O(processes)."""
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if os.getsid(int(place.name)) == leader:
                os.kill(int(place.name), signal.SIGKILL)


def said_by(failed: subprocess.CompletedProcess) -> str:
    """Why it failed, in its words."""
    return failed.stderr if failed.stderr.strip() else failed.stdout


def room_of(folder: Path) -> Path:
    """The program's own folder in that of its run."""
    return folder / "tmp"


def demand_room(request: Request, folder: Path) -> None:
    """Where none is left, what it printed is cut off, alike in every arm, and of what was measured something may be gone."""
    if not has_room(folder, 1):
        raise RunFailed(f"'{request.arm.name}' left no room in '{folder.parent}', where its output goes: name a folder that has room in TMPDIR")


def has_room(folder: Path, least_bytes: int) -> bool:
    """Whether so much can be written there still; yes where the system does not say."""
    found = os.statvfs(folder)
    return not found.f_blocks or (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize >= least_bytes


def last_of(path: Path) -> str:
    """The end of a text that may be a long one."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
        return file.read().decode(errors="replace")


def ended_early(request: Request, folder: Path, status: int) -> str:
    """Why a server could not be used, with what it said last: on stderr, or on stdout where it said nothing there."""
    last = next((text for text in (last_of(folder / name) for name in ("stderr", "stdout")) if text.strip()), "")
    return f"'{request.arm.name}' {endings.describe(status)} before it was ready{endings.tail(last)}"


def await_end(process: subprocess.Popen, request: Request) -> None:
    """Of a server that was told to end. Else a --stop that does not reach it would be waited for as long as a run may take."""
    service = request.service
    assert service is not None
    try:
        wait(process, min(service.farewell_s, request.timeout_s))
    except subprocess.TimeoutExpired:
        told = f"'{service.stop}'" if service.stop else "SIGTERM"
        raise RunFailed(f"'{request.arm.name}' went on for {service.farewell_s:.0f} s after {told}, which is to end it") from None


def wait(process: subprocess.Popen, timeout_s: float) -> None:
    """Until the process ends. Popen.wait with a time limit looks every 50 ms instead, and nobody should pay that for each run."""
    handle = os.pidfd_open(process.pid)
    try:
        if not select.select([handle], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired(process.args, timeout_s)
    finally:
        os.close(handle)
    process.wait()


def read_probe(path: Path) -> tuple[list[tuple[str, str]], int]:
    """The probe's lines: which library served malloc in each process, and the first one's peak before main."""
    rows = [line.split("\t") for line in path.read_text(errors="surrogateescape").split("\n")] if path.exists() else []
    rows = [row for row in rows if len(row) == 6]
    return [(row[1], row[2]) for row in rows], int(rows[0][5]) * 1024 if rows else 0


def read_series(path: Path, points_max: int = 400) -> list[tuple[float, int]]:
    """The samples of a memory run, thinned to what a plot can show, peaks kept."""
    if not path.exists():
        return []
    rows = [(float(a), int(b)) for a, b in (line.split() for line in path.read_text().splitlines())]
    stride = -(-len(rows) // points_max) or 1
    return [max(rows[i : i + stride], key=lambda row: row[1]) for i in range(0, len(rows), stride)]
