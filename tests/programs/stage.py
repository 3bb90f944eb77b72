"""Where one program runs once: a room for its files, the preload on what is under test, and a transcript to compare."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from programs.proof import Proof, maps_library

EXCEPTIONS = Path(__file__).resolve().parents[2] / "packaging/exceptions"  # programs that are known to misuse the heap
HANG_SECONDS = 600  # a watchdog: it turns a hang into a failure and measures nothing
POLL_SECONDS = 0.02


class Failed(AssertionError):
    """A run that ended otherwise than it should, in words for whoever reads the report."""


@dataclass
class Step:
    """What one command under test did, after normalising: two runs are equal when their lists of steps are."""

    name: str
    status: int
    output: str
    errors: str


def describe_status(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def poll(what: str, done: Callable[[], bool], tail: Callable[[], str] = str) -> None:
    """Waits until `done()` says so; when that takes too long, fails with what `tail()` has to tell."""
    deadline = time.monotonic() + HANG_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise Failed(f"{what} is not ready after {HANG_SECONDS} s\n{tail()}")
        time.sleep(POLL_SECONDS)


def unprivileged(user: str) -> dict[str, object]:
    """Arguments for Popen that run a server as `user` when we are root, which servers refuse to be or should not be."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@dataclass
class Server:
    """A process under test that stays: `process` is it, `log` holds what it said."""

    name: str
    process: subprocess.Popen
    log: Path

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class Session:
    """A client that stays connected: `ask` sends a line and returns the next line it prints."""

    def __init__(self, process: subprocess.Popen):
        self.process = process

    def ask(self, line: str) -> str:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            raise Failed(f"process {self.process.pid} ended at the question {line[:80]!r}")
        return reply.decode(errors="replace").rstrip("\n")


@dataclass
class Stage:
    """One run of one program. `library` is preloaded into what `run` and `serve` start, and into nothing else."""

    room: Path
    library: Path | None
    proof: Proof
    shelf: Path  # what is costly to make and equal for every run of a session
    settings: dict[str, str] = field(default_factory=dict)  # what else is in the environment beside the preload
    transcript: list[Step] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room.mkdir()
        self.room.chmod(0o755)

    # -- what a program's definition uses ------------------------------------------------------------------------------

    def file(self, name: str, content: str | bytes) -> Path:
        """Writes an input file into the room."""
        path = self.room / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def folder_of(self, user: str, name: str = "data") -> Path:
        """Makes a private folder that belongs to the user a server runs as."""
        path = self.room / name
        path.mkdir()
        self.give(path, user)
        path.chmod(0o700)
        return path

    def give(self, path: Path, user: str) -> None:
        """Hands a tree to the user a server runs as."""
        if os.getuid() == 0:
            for each in [path, *path.rglob("*")]:
                shutil.chown(each, user, pwd.getpwnam(user).pw_gid)

    def shelved(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder that `make` fills once a session, for inputs that every run shares and none changes."""
        path = self.shelf / name
        if not path.exists():
            path.mkdir()
            make(path)
        return path

    def run(self, *argv: object, stdin: bytes | None = None, keep: Callable[[str], str] = str,
            env: dict[str, str] | None = None, user: str | None = None) -> bytes:
        """Runs a command under test and notes status and output, both streams passed through `keep`. Returns stdout."""
        process = self._start(argv, env, user, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            output, errors = process.communicate(stdin, timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill(process)
            raise Failed(f"{argv[0]} hung: no end after {HANG_SECONDS} s") from None
        self.note(str(argv[0]), process.returncode, keep(output.decode(errors="replace")),
                  keep(errors.decode(errors="replace")))
        return output

    def note(self, name: str, status: int = 0, output: str = "", errors: str = "") -> None:
        """Adds a step to the transcript; without preload it must have ended well, or there is no reference."""
        if self.library is None and status != 0:
            raise Failed(f"{name} fails without preload: {describe_status(status)}\n{output[-2000:]}{errors[-2000:]}")
        self.transcript.append(Step(name, status, output, errors))

    def aside(self, *argv: object, stdin: bytes | None = None, user: str | None = None) -> str:
        """Runs a helper without preload, which must succeed. Returns its stdout."""
        who = unprivileged(user) if user else {}
        done = subprocess.run([str(word) for word in argv], input=stdin, cwd=self.room, env=self.plain_environment(),
                              capture_output=True, timeout=HANG_SECONDS, **who)
        if done.returncode != 0:
            told = (done.stdout[-2000:] + done.stderr[-2000:]).decode(errors="replace")
            raise Failed(f"helper {' '.join(map(str, argv))[:300]}: {describe_status(done.returncode)}\n{told}")
        return done.stdout.decode(errors="replace")

    @contextlib.contextmanager
    def serve(self, *argv: object, ready: Callable[[], bool], user: str | None = None,
              stop: signal.Signals = signal.SIGTERM) -> Iterator[Server]:
        """Runs a server under test for as long as the block lasts, then ends it and notes its exit status."""
        log = self.room / "server.log"
        with log.open("wb") as sink:
            process = self._start(argv, None, user, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        server = Server(str(argv[0]), process, log)
        try:
            self._await(server, ready)
            if self.library and not maps_library(process.pid, self.library):
                raise Failed(f"{server.name} runs, but {self.library} is not in /proc/{process.pid}/maps")
            yield server
            if process.poll() is not None:
                raise Failed(f"{server.name} ended by itself: {describe_status(process.returncode)}\n{server.tail()}")
            process.send_signal(stop)
            try:
                process.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                raise Failed(f"{server.name} ignores {stop.name} for {HANG_SECONDS} s\n{server.tail()}") from None
        finally:
            self._kill(process)
        self.note(f"end of {server.name}", process.returncode)

    @contextlib.contextmanager
    def session(self, *argv: object, env: dict[str, str] | None = None, user: str | None = None,
                under_test: bool = True) -> Iterator[Session]:
        """Runs a command that answers lines, as long as the block lasts; then closes its input and awaits its end."""
        with (self.room / "session.log").open("wb") as sink:
            process = self._start(argv, env, user, under_test, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=sink)
        try:
            yield Session(process)
            process.stdin.close()
            process.wait(HANG_SECONDS)
        finally:
            self._kill(process)
            process.stdout.close()
        self.note(f"end of {argv[0]}", process.returncode)

    def peak_of(self, *argv: object) -> int:
        """Runs a command under test that must end well, and returns the largest resident set of it and its children."""
        log = self.room / "peak.log"
        with log.open("wb") as sink:
            process = self._start(argv, None, None, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failed(f"{argv[0]}: {describe_status(process.returncode)}\n{log.read_text(errors='replace')[-2000:]}")
        return usage.ru_maxrss * 1024

    # -- helpers -------------------------------------------------------------------------------------------------------

    def plain_environment(self) -> dict[str, str]:
        """A small fixed environment, so that a run does not depend on whose shell started it."""
        return {"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.room), "TMPDIR": "/tmp",
                "LANG": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1700000000"}

    def check_proof(self) -> None:
        """Fails unless every process that came out of `run` and `serve` had the library."""
        complaints = self.proof.missing(self.library, self.pids) if self.library else []
        if complaints:
            raise Failed("the library under test was not loaded everywhere:\n" + "\n".join(complaints))

    def _start(self, argv: tuple, env: dict[str, str] | None, user: str | None, under_test: bool = True,
               **streams: object) -> subprocess.Popen:
        environment = self.plain_environment() | (env or {})
        if under_test:
            environment |= self.proof.environment
        if under_test and self.library:
            environment |= {"LD_PRELOAD": str(self.library), "MORTISE_EXCEPTIONS": str(EXCEPTIONS)} | self.settings
        words = [str(word) for word in argv]
        found = shutil.which(words[0], path=environment["PATH"]) if "/" not in words[0] else words[0]
        if found is None:
            raise Failed(f"{words[0]} is not installed; run: packaging/setup.sh programs")
        process = subprocess.Popen(words, executable=found, cwd=self.room, env=environment, start_new_session=True,
                                   **streams, **(unprivileged(user) if user else {}))
        if under_test:
            self.pids.append(process.pid)
        return process

    def _await(self, server: Server, ready: Callable[[], bool]) -> None:
        def is_ready() -> bool:
            if server.process.poll() is not None:
                status = describe_status(server.process.returncode)
                raise Failed(f"{server.name} ended before it was ready: {status}\n{server.tail()}")
            return ready()

        poll(server.name, is_ready, server.tail)

    def _kill(self, process: subprocess.Popen) -> None:
        """Ends the whole session of a process, workers included; nothing that a test starts may outlive it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
