"""What a sleeping program keeps resident after a burst, on real programs: no more than the pages that still hold a block.

Each program takes much, then drops 85 in 100 of it at random, then everything; after each it sleeps. A ledger in front of the
allocator (tests/life/ledger.cpp) counts the pages that its blocks lie in. Beyond what was resident before the burst, without blocks,
a fifth more than those pages may stay, and 4 MiB for bookkeeping and for code that ran for the first time.
"""

import argparse
import contextlib
import mmap
import random
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from programs.serving import redis_server
from programs.stage import POLL_SECONDS, Failed, Stage
from programs.theatre import ROOT, Subject, built, open_theatre

SCRIPTS = Path(__file__).parent / "scripts"
LEDGER = ROOT / "build/tests/life/libprogram-life-ledger.so"
PAGE, MIB = 4096, 1 << 20
ALLOWED_RATIO, SLACK_BYTES = 1.2, 4 << 20
LONG_SECONDS = 120  # a watchdog: long after the memory should have gone
KEYS = 150_000


@dataclass
class Sleeper:
    """A program under test that sleeps between the lines it is sent."""

    pid: int
    ask: Callable[[str], object]


@contextlib.contextmanager
def script(stage: Stage, *argv: object, env: dict[str, str] | None = None) -> Iterator[Sleeper]:
    with stage.session(*argv, env=env) as session:
        yield Sleeper(session.process.pid, session.ask)


@contextlib.contextmanager
def redis(stage: Stage) -> Iterator[Sleeper]:
    with redis_server(stage) as at:
        def ask(what: str) -> None:
            if what == "take":
                at.client("debug", "populate", str(KEYS), "key", "300")
            elif what == "thin":
                chosen = random.Random(1)
                words = (f"key:{number}" for number in range(KEYS) if chosen.random() < 0.85)
                at.client("--pipe", stdin="".join(f"DEL {word}\r\n" for word in words).encode())
            else:
                at.client("flushall", "sync")

        yield Sleeper(at.server.process.pid, ask)


SLEEPERS: dict[str, Callable] = {
    "redis": redis,
    "python3": lambda stage: script(stage, "python3", SCRIPTS / "burst.py", env={"PYTHONMALLOC": "malloc"}),
    "lua": lambda stage: script(stage, "lua5.4", SCRIPTS / "burst.lua"),
    "perl": lambda stage: script(stage, "perl", SCRIPTS / "burst.pl"),
    "php": lambda stage: script(stage, "php", SCRIPTS / "burst.php", env={"USE_ZEND_ALLOC": "0"}),
}


@dataclass
class Nap:
    """Bytes: resident at the height of the burst, in pages that hold a block, and left when the program had slept for a while."""

    what: str
    peak: int
    live: int
    left: int
    waited_s: float

    @property
    def allowed(self) -> int:
        return int(self.live * ALLOWED_RATIO) + SLACK_BYTES

    @property
    def is_within(self) -> bool:
        return self.left <= self.allowed


def anonymous_bytes(pid: int) -> int:
    """Resident pages of the process that no file holds. The ledger's tables are shared memory, and not among them."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise Failed("the kernel tells no RssAnon")


def naps(name: str, subject: Subject) -> list[Nap]:
    """Runs the program through its bursts; each nap ends when what is left is allowed, or after a long time."""
    with open_theatre() as theatre:
        ledger, book = theatre.home / LEDGER.name, theatre.home / "book"
        shutil.copy(LEDGER, ledger)
        book.write_bytes(bytes(PAGE))
        book.chmod(0o666)
        library = theatre.library(subject)
        theatre.settings |= {"LD_PRELOAD": f"{ledger}:{library}", "LEDGER": str(book)}
        with theatre.stage(name, library) as stage, SLEEPERS[name](stage) as sleeper, book.open("rb") as file, \
                mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ) as seen:
            def pages() -> int:
                return struct.unpack_from("3Q", seen)[2] * PAGE

            sleeper.ask("clear")
            before = anonymous_bytes(sleeper.pid) - pages()
            sleeper.ask("take")
            peak, found = anonymous_bytes(sleeper.pid) - before, []
            if pages() < 16 * MIB:
                raise Failed(f"{name} took only {pages() / MIB:.1f} MiB from the ledger's allocator")
            for what in ("thin", "clear"):
                sleeper.ask(what)
                start = time.monotonic()
                while True:
                    nap = Nap(what, peak, pages(), anonymous_bytes(sleeper.pid) - before, time.monotonic() - start)
                    if nap.is_within or nap.waited_s > LONG_SECONDS:
                        break
                    time.sleep(POLL_SECONDS)
                found.append(nap)
            return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="idle", description=__doc__.splitlines()[0])
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME", help="this one, or these (hslab)")
    parser.add_argument("--program", action="append", choices=sorted(SLEEPERS), help="only this one; may be repeated")
    chosen, is_well = parser.parse_args(), True
    print(f"{'program':10}{'allocator':16}{'burst':8}{'MiB peak':>10}{'in pages':>10}{'left':>8}{'after s':>9}", flush=True)
    for name in chosen.program or SLEEPERS:
        for allocator in chosen.allocator or ["hslab"]:
            for nap in naps(name, built(allocator)):
                is_well &= nap.is_within
                sizes = f"{nap.peak / MIB:10.1f}{nap.live / MIB:10.1f}{nap.left / MIB:8.1f}"
                print(f"{name:10}{allocator:16}{nap.what:8}{sizes}{nap.waited_s:9.2f}{'' if nap.is_within else '  stays'}", flush=True)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
