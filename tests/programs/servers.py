"""Servers: threads or processes that live long, under load from clients that run without the library."""

import hashlib
import re
import socket
from pathlib import Path

from programs import inputs
from programs.registry import program
from programs.serving import (LocalConnection, at_once, mariadb_server, memcached_server, nginx_server, postgres_server,
                              redis_server)
from programs.stage import Failed, Stage, poll

SCRIPTS = Path(__file__).parent / "scripts"


@program("redis")
def redis(stage: Stage) -> None:
    """One thread, all sizes, endless lives of values; Debian's links jemalloc, so two allocators are there."""
    with redis_server(stage) as at:
        stage.aside("redis-benchmark", "-s", at.address, "-n", "100000", "-c", "20", "-q", "-P", "16", "-r", "50000",
                    "-t", "set,get,lpush,lrange_100")
        at.client("flushall")
        at.client("--pipe", stdin=inputs.redis_commands(15000))
        stage.note("data", output=at.client("debug", "digest") + at.client("dbsize"))
        at.client("bgsave")
        poll("the save in the background", lambda: "bgsave_in_progress:0" in at.client("info", "persistence"))
        stage.note("saved", output=re.search("rdb_last_bgsave_status:.*", at.client("info", "persistence"))[0])
        at.client("debug", "reload")
        stage.note("reloaded", output=at.client("debug", "digest"))


def memcached_load(address: Path, name: int, rounds: int = 6000) -> str:
    """One client's sets and gets; each value is read back. Returns a digest of what came."""
    digest = hashlib.sha256()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(address))
        replies = client.makefile("rb")
        for i in range(rounds):
            value = b"%d:" % i * (i * 7 % 400)
            key = b"k%d-%d" % (name, i % 900)
            client.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
            if replies.readline() != b"STORED\r\n":
                raise Failed(f"memcached did not store value {i}")
            replies.readline()
            digest.update(replies.read(len(value) + 2))
            replies.readline()
    return digest.hexdigest()


@program("memcached")
def memcached(stage: Stage) -> None:
    """Threads that hand connections over; its own slabs are a few large blocks, its buffers grow by realloc."""
    with memcached_server(stage) as at:
        jobs = (lambda name=name: memcached_load(at.address, name) for name in range(4))
        stage.note("data", output="\n".join(at_once(*jobs)))


@program("mariadb")
def mariadb(stage: Stage) -> None:
    """A thread a connection, arenas a query, large pools mapped at start; C++ with many libraries."""
    with mariadb_server(stage) as at:
        stage.aside("mariadb-slap", "--no-defaults", "-uroot", "-S", at.address, "--auto-generate-sql",
                    "--concurrency=8", "--number-of-queries=2000", "--auto-generate-sql-load-type=mixed")
        at.client((SCRIPTS / "people.sql").read_text())
        report = (SCRIPTS / "report.sql").read_text()
        jobs = (lambda part=part: at.client(report.replace("$PART", str(part))) for part in range(4))
        stage.note("queries", output="\n".join(at_once(*jobs)))
        check = "delete from t where id mod 3 = 0; checksum table t extended; check table t"
        stage.note("table", output=at.client(check))


@program("postgres")
def postgres(stage: Stage) -> None:
    """A process a connection, forked and not exec'ed: children live on in a heap copied with locks and caches."""
    with postgres_server(stage) as at:
        at.client("pgbench", "-i", "-s", "2", "-q", "postgres")
        at.client("pgbench", "-c", "4", "-j", "2", "-t", "1000", "--random-seed=7", "postgres")
        stage.note("data", output=at.client("psql", "-At", "-f", str(SCRIPTS / "sums.sql"), "postgres"))


def nginx_load(address: Path, page: bytes, requests: int = 600) -> str:
    """One client's requests, three of four packed; the plain ones are compared. Returns a digest of what came."""
    digest = hashlib.sha256()
    connection = LocalConnection(address)
    for i in range(requests):
        packed = i % 4 != 0
        connection.request("GET", "/page.txt", headers={"Accept-Encoding": "gzip"} if packed else {})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200 or (not packed and content != page):
            raise Failed(f"nginx answered request {i} with status {answer.status} and {len(content)} bytes")
        digest.update(content)
    connection.close()
    return digest.hexdigest()


@program("nginx")
def nginx(stage: Stage) -> None:
    """Pools a request, aligned blocks, zlib states made and dropped with every answer; workers forked from a master."""
    page = inputs.text(400).encode()
    with nginx_server(stage, page) as at:
        stage.note("answers", output="\n".join(at_once(*[lambda: nginx_load(at.address, page)] * 8)))
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
