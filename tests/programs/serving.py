"""How each server is started on a stage: on a Unix socket in the room, as a user it accepts, ready when it answers."""

import contextlib
import http.client
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from programs.stage import Failed, Server, Session, Stage

NOBODY = "nobody"


@dataclass
class Reached:
    """A running server and the ways to talk to it: its socket, and its client as a function of words (and input)."""

    server: Server
    address: Path
    client: Callable[..., str]
    session: Callable[..., AbstractContextManager[Session]] | None = None


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


class LocalConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, address: Path):
        super().__init__("localhost")
        self.address = address

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.address))


@contextlib.contextmanager
def redis_server(stage: Stage) -> Iterator[Reached]:
    address = stage.room / "s"
    stage.give(stage.room, NOBODY)

    def client(*words: str, stdin: bytes | None = None) -> str:
        return stage.aside("redis-cli", "-s", address, *words, stdin=stdin)

    with stage.serve("redis-server", "--port", "0", "--unixsocket", address, "--unixsocketperm", "777", "--save", "",
                     "--appendonly", "no", "--enable-debug-command", "local", "--dir", stage.room, user=NOBODY,
                     ready=lambda: answers(address, b"PING\r\n", b"+PONG\r\n")) as server:
        yield Reached(server, address, client)


@contextlib.contextmanager
def memcached_server(stage: Stage) -> Iterator[Reached]:
    address = stage.room / "s"
    stage.give(stage.room, NOBODY)
    with stage.serve("memcached", "-s", address, "-a", "0777", "-m", "64", "-t", "2", user=NOBODY,
                     ready=lambda: answers(address, b"version\r\n", b"VERSION")) as server:
        yield Reached(server, address, lambda: "")


@contextlib.contextmanager
def mariadb_server(stage: Stage) -> Iterator[Reached]:
    """The client takes SQL for the database `test`."""
    user, small = "mysql", "--innodb-log-file-size=4M"

    def install(folder: Path) -> None:
        stage.aside("mariadb-install-db", "--no-defaults", f"--datadir={folder}", "--skip-test-db", small,
                    "--auth-root-authentication-method=normal")

    data = stage.room / "data"
    shutil.copytree(stage.shelved("mariadb", install), data)
    stage.give(data, user)
    address = data / "s"
    connect = ("mariadb", "--no-defaults", "-uroot", "-S", address)

    def client(sql: str) -> str:
        return stage.aside(*connect, "-N", "test", stdin=sql.encode())

    with stage.serve("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={address}", "--skip-networking",
                     small, "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", user=user,
                     ready=lambda: answers(address)) as server:
        stage.aside(*connect, "-e", "create database test")
        yield Reached(server, address, client)


@contextlib.contextmanager
def postgres_server(stage: Stage) -> Iterator[Reached]:
    """The client takes the name of one of its tools and words; initdb runs on the library as well."""
    user = "postgres"
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))
    data, address = stage.folder_of(user), stage.folder_of(user, "s")
    stage.run(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8",
              "--no-sync", user=user, keep=lambda text: text.replace(str(stage.room), ""))

    def client(tool: str, *words: str) -> str:
        return stage.aside(programs / tool, "-h", address, "-U", "postgres", *words, user=user)

    def session(tool: str, *words: str) -> AbstractContextManager[Session]:
        return stage.session(programs / tool, "-h", address, "-U", "postgres", *words, user=user, under_test=False)

    def ready() -> bool:
        pid = data / "postmaster.pid"
        return pid.exists() and "ready" in pid.read_text()

    with stage.serve(programs / "postgres", "-D", data, "-k", address, "-c", "listen_addresses=", "-c", "fsync=off",
                     "-c", "shared_buffers=32MB", user=user, ready=ready,
                     stop=signal.SIGINT) as server:  # its fast shutdown
        yield Reached(server, address, client, session)


@contextlib.contextmanager
def nginx_server(stage: Stage, page: bytes) -> Iterator[Reached]:
    """Serves `page` as /page.txt, packed when asked, from two workers."""
    address = stage.room / "s"
    stage.file("html/page.txt", page)
    kinds = "\n".join(f"{kind}_temp_path {stage.room}/{kind};"
                      for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    stage.file("nginx.conf", f"""
daemon off; worker_processes 2; pid {stage.room}/pid; error_log {stage.room}/errors.log;
events {{ worker_connections 256; }}
http {{ access_log off; {kinds} gzip on; gzip_types *; keepalive_requests 300;
  server {{ listen unix:{address}; root {stage.room}/html; }} }}
""")
    stage.give(stage.room, NOBODY)
    with stage.serve("nginx", "-p", stage.room, "-e", stage.room / "errors.log", "-c", stage.room / "nginx.conf",
                     user=NOBODY, ready=lambda: answers(address), stop=signal.SIGQUIT) as server:  # its graceful end
        yield Reached(server, address, lambda: "")
