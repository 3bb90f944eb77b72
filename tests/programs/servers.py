"""Servers: threads or processes that live long, under load from clients that run without the library."""

import hashlib
import http.client
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from programs import inputs
from programs.registry import program
from programs.stage import Failed, Stage

NOBODY = "nobody"
SCRIPTS = Path(__file__).parent / "scripts"


def answers(path: Path, question: bytes = b"", answer: bytes = b"") -> bool:
    """True when a server listens on the Unix socket at `path` (and answers as expected)."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(question)
            return not answer or client.recv(len(answer)) == answer
    except OSError:
        return False


def at_once(*jobs: Callable[[], str]) -> list[str]:
    """Runs the clients' jobs on a thread each and returns their results in order; the first error is raised here."""
    results: list[str | Exception] = [""] * len(jobs)

    def run(index: int) -> None:
        try:
            results[index] = jobs[index]()
        except Exception as error:  # noqa: BLE001  (carried to the caller, who raises it)
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(jobs))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for result in results:
        if isinstance(result, Exception):
            raise Failed(f"a client failed: {result!r}") from result
    return results


@program("redis")
def redis(stage: Stage) -> None:
    """One thread, all sizes, endless lives of values; Debian's links jemalloc, so two allocators are there."""
    address = stage.room / "s"
    stage.give(stage.room, NOBODY)

    def client(*words: str, stdin: bytes | None = None) -> str:
        return stage.aside("redis-cli", "-s", address, *words, stdin=stdin)

    server = ("redis-server", "--port", "0", "--unixsocket", address, "--unixsocketperm", "777", "--save", "",
              "--appendonly", "no", "--enable-debug-command", "local", "--dir", stage.room)
    with stage.serve(*server, user=NOBODY, ready=lambda: answers(address, b"PING\r\n", b"+PONG\r\n")):
        stage.aside("redis-benchmark", "-s", address, "-n", "100000", "-c", "20", "-q", "-P", "16", "-r", "50000",
                    "-t", "set,get,lpush,lrange_100")
        client("flushall")
        client("--pipe", stdin=inputs.redis_commands(15000))
        stage.note("data", output=client("debug", "digest") + client("dbsize"))
        client("save")  # forks a child that walks the whole heap
        client("debug", "reload")
        stage.note("reloaded", output=client("debug", "digest"))


@program("memcached")
def memcached(stage: Stage) -> None:
    """Threads that hand connections over; its own slabs are a few large blocks, its buffers grow by realloc."""
    address = stage.room / "s"
    stage.give(stage.room, NOBODY)

    def load(name: int) -> str:
        digest = hashlib.sha256()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(address))
            replies = client.makefile("rb")
            for i in range(6000):
                value = b"%d:" % i * (i * 7 % 400)
                client.sendall(b"set k%d-%d 0 0 %d\r\n%s\r\nget k%d-%d\r\n"
                               % (name, i % 900, len(value), value, name, i % 900))
                if replies.readline() != b"STORED\r\n":
                    raise Failed(f"memcached did not store value {i}")
                replies.readline()
                digest.update(replies.read(len(value) + 2))
                replies.readline()
        return digest.hexdigest()

    with stage.serve("memcached", "-s", address, "-a", "0777", "-m", "64", "-t", "2", user=NOBODY,
                     ready=lambda: answers(address, b"version\r\n", b"VERSION")):
        stage.note("data", output="\n".join(at_once(*(lambda name=name: load(name) for name in range(4)))))


@program("mariadb")
def mariadb(stage: Stage) -> None:
    """A thread a connection, arenas a query, large pools mapped at start; C++ with many libraries."""
    user = "mysql"

    def install(folder: Path) -> None:
        stage.aside("mariadb-install-db", "--no-defaults", f"--datadir={folder}", "--skip-test-db",
                    "--auth-root-authentication-method=normal", "--innodb-log-file-size=4M")

    data = stage.room / "data"
    shutil.copytree(stage.shelved("mariadb", install), data)
    stage.give(data, user)
    address = data / "s"

    def sql(text: str) -> str:
        return stage.aside("mariadb", "--no-defaults", "-uroot", "-S", address, "-N", "test", stdin=text.encode())

    with stage.serve("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={address}", "--skip-networking",
                     "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0",
                     user=user, ready=lambda: answers(address)):
        stage.aside("mariadb", "--no-defaults", "-uroot", "-S", address, "-e", "create database test")
        stage.aside("mariadb-slap", "--no-defaults", "-uroot", "-S", address, "--auto-generate-sql", "--concurrency=8",
                    "--number-of-queries=2000", "--auto-generate-sql-load-type=mixed")
        sql((SCRIPTS / "people.sql").read_text())
        report = (SCRIPTS / "report.sql").read_text()
        jobs = (lambda part=part: sql(report.replace("$PART", str(part))) for part in range(4))
        stage.note("queries", output="\n".join(at_once(*jobs)))
        stage.note("table", output=sql("delete from t where id mod 3 = 0; checksum table t extended; check table t"))


@program("postgres")
def postgres(stage: Stage) -> None:
    """A process a connection, forked and not exec'ed: children live on in a heap copied with locks and caches."""
    user = "postgres"
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))
    data, address = stage.folder_of(user), stage.folder_of(user, "s")
    stage.run(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8",
              "--no-sync", user=user, keep=lambda text: text.replace(str(stage.room), ""))

    def client(tool: str, *words: str) -> str:
        return stage.aside(programs / tool, "-h", address, "-U", "postgres", *words, user=user)

    def ready() -> bool:
        pid = data / "postmaster.pid"
        return pid.exists() and "ready" in pid.read_text()

    with stage.serve(programs / "postgres", "-D", data, "-k", address, "-c", "listen_addresses=", "-c", "fsync=off",
                     user=user, ready=ready, stop=signal.SIGINT):  # its fast shutdown
        client("pgbench", "-i", "-s", "2", "-q", "postgres")
        client("pgbench", "-c", "4", "-j", "2", "-t", "1000", "--random-seed=7", "postgres")
        stage.note("data", output=client("psql", "-At", "-f", str(SCRIPTS / "sums.sql"), "postgres"))


@program("nginx")
def nginx(stage: Stage) -> None:
    """Pools a request, aligned blocks, zlib states made and dropped with every answer; workers forked from a master."""
    address, body = stage.room / "s", inputs.text(400).encode()
    stage.file("html/page.txt", body)
    kinds = "\n".join(f"{kind}_temp_path {stage.room}/{kind};"
                      for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    stage.file("nginx.conf", f"""
daemon off; worker_processes 2; pid {stage.room}/pid; error_log {stage.room}/errors.log;
events {{ worker_connections 256; }}
http {{ access_log off; {kinds} gzip on; gzip_types *; keepalive_requests 300;
  server {{ listen unix:{address}; root {stage.room}/html; }} }}
""")
    stage.give(stage.room, NOBODY)

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(address))

    def load() -> str:
        digest = hashlib.sha256()
        connection = Connection("localhost")
        for i in range(600):
            packed = i % 4 != 0
            connection.request("GET", "/page.txt", headers={"Accept-Encoding": "gzip"} if packed else {})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200 or (not packed and content != body):
                raise Failed(f"nginx answered request {i} with status {answer.status} and {len(content)} bytes")
            digest.update(content)
        connection.close()
        return digest.hexdigest()

    with stage.serve("nginx", "-p", stage.room, "-e", stage.room / "errors.log", "-c", stage.room / "nginx.conf",
                     user=NOBODY, ready=lambda: answers(address), stop=signal.SIGQUIT):  # its graceful end
        stage.note("answers", output="\n".join(at_once(*[load] * 8)))
    stage.note("log", output=re.sub(r"^.*\[notice\].*\n", "", (stage.room / "errors.log").read_text(), flags=re.M))


@program("rocksdb")
def rocksdb(stage: Stage) -> None:
    """An engine of threads: arenas of 1 MB, blocks of a cache, iterators; flushes and compactions in the background."""
    def keep(text: str) -> str:
        """What was measured and what was found, without the figures of time."""
        lines = re.findall(r"^(\w+) +: .*micros/op.*?(\(.* found\))?\s*$", text, re.M)
        return "\n".join(name + found for name, found in lines)

    stage.run("db_bench", "--benchmarks=fillseq,readrandom,overwrite,compact,readseq", "--num=100000", "--threads=2",
              f"--db={stage.room}/db", "--compression_type=none", "--seed=5", "--write_buffer_size=2097152", keep=keep)
