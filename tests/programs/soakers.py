"""What `soak` runs for minutes: loads that repeat in rounds of equal work, so that memory must come back to a level."""

import contextlib
import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psutil

from programs import inputs
from programs.servers import memcached_load, nginx_load
from programs.serving import at_once, mariadb_server, memcached_server, nginx_server, postgres_server, redis_server
from programs.stage import Failed, Stage

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Load:
    """A running load: `play` does one round and returns what came of it, `memory` tells the bytes it holds after it."""

    play: Callable[[int], str]
    memory: Callable[[], int]


def memory_of(pid: int) -> int:
    """Bytes of a process and its children, with pages they share counted once (their proportional sizes added up)."""
    total = 0
    main = psutil.Process(pid)
    for process in [main, *main.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


SOAKERS: dict[str, Callable[[Stage], AbstractContextManager[Load]]] = {}


def soaker(name: str) -> Callable:
    """Registers a load under `name`."""

    def register(start: Callable[[Stage], Iterator[Load]]) -> Callable:
        SOAKERS[name] = contextlib.contextmanager(start)
        return start

    return register


@soaker("redis")
def redis(stage: Stage) -> Iterator[Load]:
    """Values of other sizes replace each other in every round: what fragments a heap."""
    with redis_server(stage) as at:
        def play(number: int) -> str:
            at.client("--pipe", stdin=inputs.redis_turnover(keys=20000, round_number=number % 6))
            return at.client("debug", "digest").strip()

        yield Load(play, lambda: memory_of(at.server.process.pid))


@soaker("memcached")
def memcached(stage: Stage) -> Iterator[Load]:
    """Connections come and go, eight at a time."""
    with memcached_server(stage) as at:
        def play(number: int) -> str:
            jobs = (lambda name=name: memcached_load(at.address, name + number % 5, rounds=1500) for name in range(8))
            return " ".join(at_once(*jobs))

        yield Load(play, lambda: memory_of(at.server.process.pid))


@soaker("mariadb")
def mariadb(stage: Stage) -> Iterator[Load]:
    """A table is made, changed by four clients and dropped."""
    with mariadb_server(stage) as at:
        people, report = (SCRIPTS / "people.sql").read_text(), (SCRIPTS / "report.sql").read_text()

        def play(number: int) -> str:
            at.client(people)
            jobs = (lambda part=part: at.client(report.replace("$PART", str(part))) for part in range(4))
            answers = "".join(at_once(*jobs))
            at.client("drop table t")
            return hashlib.sha256(answers.encode()).hexdigest()

        yield Load(play, lambda: memory_of(at.server.process.pid))


@soaker("postgres")
def postgres(stage: Stage) -> Iterator[Load]:
    """pgbench connects anew for a round; one connection stays through all of them."""
    with postgres_server(stage) as at:
        at.client("pgbench", "-i", "-s", "1", "-q", "postgres")
        sums = " ".join(line for line in (SCRIPTS / "sums.sql").read_text().splitlines() if not line.startswith("--"))
        with at.session("psql", "-At", "postgres") as session:
            def play(number: int) -> str:
                at.client("pgbench", "-n", "-S", "-c", "4", "-j", "2", "-t", "1500", "postgres")
                return " ".join(session.ask(query + ";") for query in sums.split(";") if query.strip())

            yield Load(play, lambda: memory_of(at.server.process.pid))


@soaker("nginx")
def nginx(stage: Stage) -> Iterator[Load]:
    """Eight clients connect anew in every round."""
    page = inputs.text(400).encode()
    with nginx_server(stage, page) as at:
        def play(number: int) -> str:
            return at_once(*[lambda: nginx_load(at.address, page, requests=100 + number % 3 * 100)] * 8)[0]

        yield Load(play, lambda: memory_of(at.server.process.pid))


def interpreter(name: str, *argv: object, env: dict[str, str] | None = None) -> None:
    """A run-time that does one round for each line it is sent."""

    def start(stage: Stage) -> Iterator[Load]:
        with stage.session(*argv, "rounds", env=env) as session:
            yield Load(lambda number: session.ask(str(number % 7)), lambda: memory_of(session.process.pid))

    soaker(name)(start)


interpreter("nodejs", "node", "--expose-gc", SCRIPTS / "buffers.js")
interpreter("python3", "python3", SCRIPTS / "documents.py", env={"PYTHONMALLOC": "malloc"})
interpreter("ruby", "ruby", "-rjson", SCRIPTS / "documents.rb")
interpreter("php", "php", SCRIPTS / "strings.php", env={"USE_ZEND_ALLOC": "0"})


@soaker("java")
def java(stage: Stage) -> Iterator[Load]:
    """Threads, zlib states and direct buffers in every round, then a collection."""
    classes = stage.shelved("java", lambda path: stage.aside("javac", "-d", path, SCRIPTS / "Deflate.java"))
    command = ("java", "-XX:+UseSerialGC", "-Xms64m", "-Xmx64m", "-cp", classes, "Deflate", "rounds")
    with stage.session(*command) as session:
        yield Load(lambda number: session.ask(str(number % 7)), lambda: memory_of(session.process.pid))


def compilations(target: str) -> list[list[str]]:
    """The compiler's command lines for a target of this project, without their outputs."""
    record = ROOT / "build/compile_commands.json"
    if not record.is_file():
        raise Failed(f"{record} does not exist; make it with: make build")
    lines = [shlex.split(each["command"]) for each in json.loads(record.read_text()) if target in each["command"]]
    return [[word for at, word in enumerate(line) if "-o" not in (word, line[at - 1])] for line in lines]


@soaker("compiler")
def compiler(stage: Stage) -> Iterator[Load]:
    """The sources of the project's own library are compiled; the memory told is the largest of one compiler."""
    commands = compilations("mortise-hslab.dir")
    peaks = []

    def play(number: int) -> str:
        peaks[:] = [stage.peak_of(*command, "-o", f"{index}.o") for index, command in enumerate(commands)]
        objects = (stage.room / f"{index}.o" for index in range(len(commands)))
        return hashlib.sha256(b"".join(each.read_bytes() for each in objects)).hexdigest()

    yield Load(play, lambda: max(peaks))
