"""A home for the command line that needs no build of the allocators: its helpers compiled from their sources, and a
toy allocator.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

TOY = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
extern void __libc_free(void*);
extern const int mortise_descriptor;
const int mortise_descriptor = 0;
void* malloc(size_t n) { return __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }
void free(void* p) { __libc_free(p); }
"""
DESCRIPTION = {
    "schema": "mortise.allocator/1",
    "name": "toy",
    "summary": "hands every request to libc",
    "use": "tests",
    "made_of": "one layer",
    "progress": {"hit": "blocking", "refill": "blocking", "grow": "blocking"},
    "thread_bytes": 0,
    "layers": [
        {
            "name": "Forward",
            "what": "asks libc",
            "policies": {"Sync": "libc's own"},
            "parameters": {"depth": 1},
            "progress": {"hit": "blocking"},
        }
    ],
    "budget": {"malloc": 3, "free": 3},
}
KEYS = {
    "schema": "mortise.conf/1",
    "keys": [
        {"name": "purge_ms", "type": "integer", "default": 100, "what": "when idle memory goes back"},
        {"name": "stats", "type": "none|exit|json", "default": "none", "what": "when to print statistics"},
        {"name": "stats_file", "type": "path", "default": "", "what": "where they go"},
        {"name": "limit", "type": "bytes|percent|none", "default": "none", "what": "of its memory"},
        {"name": "nodes", "type": "auto|off|cpus", "default": "auto", "what": "whose memory"},
        {"name": "later", "type": "a kind of its own", "default": "", "what": "a key of a version to come"},
    ],
}


def compile_c(source: Path, target: Path, *flags: str) -> Path:
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(target), *flags], check=True)
    return target


def compile_latency(target: Path) -> Path:
    """The latency layer, as cli/latency/CMakeLists.txt builds it."""
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-builtin",
             "-fvisibility=hidden", "-ftls-model=initial-exec", "-fno-stack-protector", "-nodefaultlibs", "-Wl,--no-undefined"]  # fmt: skip
    sources = sorted(str(path) for path in [*(ROOT / "cli/latency").glob("*.cpp"), ROOT / "abi/front.cpp"])
    include = [f"-I{ROOT}", f"-I{ROOT / 'include'}"]
    subprocess.run(["c++", *flags, *include, *sources, "-o", str(target), "-lc", "-lgcc"], check=True)
    return target


@pytest.fixture(scope="session")
def mortise_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for folder in ("lib", "libexec", "share/mortise"):
        (home / folder).mkdir(parents=True)
    compile_c(ROOT / "cli/launcher/launcher.c", home / "libexec/mortise-launcher")
    compile_c(ROOT / "cli/launcher/calls.c", home / "libexec/mortise-calls", "-static")
    compile_c(
        ROOT / "cli/launcher/probe.c", home / "libexec/mortise-probe.so", "-shared", "-fPIC", "-fvisibility=hidden"
    )
    trace_flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-ldl", "-pthread")
    compile_c(ROOT / "cli/launcher/trace.c", home / "libexec/mortise-trace.so", *trace_flags)
    compile_latency(home / "libexec/mortise-latency.so")
    compile_c(ROOT / "cli/latency/clock.c", home / "libexec/mortise-clock", "-fno-builtin", "-pthread")
    (home / "toy.c").write_text(TOY)
    compile_c(home / "toy.c", home / "lib/libmortise-toy.so", "-shared", "-fPIC", "-fno-builtin")
    (home / "share/mortise/toy.json").write_text(json.dumps(DESCRIPTION))
    (home / "share/mortise/ghost.json").write_text(json.dumps(DESCRIPTION | {"name": "ghost"}))
    (home / "share/mortise/conf.json").write_text(json.dumps(KEYS))
    return home


@pytest.fixture(autouse=True)
def home_in_force(mortise_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MORTISE_HOME", str(mortise_home))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.delenv("MORTISE_CONF", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


class Cli:
    """Runs the command line as a user does, in a process of its own."""

    def __call__(self, *words: str, **options: object) -> subprocess.CompletedProcess:
        command = [sys.executable, str(ROOT / "cli"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)

    def refused(self, status: int, *words: str) -> str:
        """The one line on stderr with which the command line refuses."""
        done = self(*words)
        lines = done.stderr.splitlines()
        assert done.returncode == status, done
        assert len(lines) == 1 and lines[0].startswith("mortise: "), done.stderr
        assert done.stdout == ""
        return lines[0]


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture(scope="session")
def toy(mortise_home: Path) -> Path:
    return mortise_home / "lib/libmortise-toy.so"


@pytest.fixture
def foreign_toy(toy: Path, tmp_path: Path) -> Path:
    """The same for another machine, IBM S/390: the loader passes it over, and the program runs on libc's malloc."""
    elf, path = bytearray(toy.read_bytes()), tmp_path / "foreign.so"
    elf[18:20] = (22).to_bytes(2, sys.byteorder)
    path.write_bytes(elf)
    return path


@pytest.fixture(scope="session")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that allocates, prints, and whose work is its first argument; the second is how many MiB it touches."""
    folder = tmp_path_factory.mktemp("churn")
    (folder / "churn.c").write_text("""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** values) {
  int work = count > 1 ? atoi(values[1]) : 1000, megabytes = count > 2 ? atoi(values[2]) : 0;
  unsigned long sum = 0, state = 88172645463325252UL;
  char* large = malloc((size_t)megabytes << 20);
  if (large == NULL) return 1;
  memset(large, 1, (size_t)megabytes << 20);
  for (int i = 0; i < work; i++) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    unsigned char* p = malloc(16 + state % 500);
    if (p == NULL) return 1;
    p[0] = (unsigned char)state;
    sum += p[0];
    free(p);
  }
  printf("%lu\\n", sum + (megabytes ? (unsigned long)large[5] : 0));
  free(large);
  return 0;
}
""")
    return compile_c(folder / "churn.c", folder / "churn")


@pytest.fixture(scope="session")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    (folder / "static.c").write_text("int main(void) { return 0; }\n")
    return compile_c(folder / "static.c", folder / "static", "-static")


@pytest.fixture
def set_uid_program(tmp_path: Path) -> Path:
    copy = tmp_path / "set-uid"
    copy.write_bytes(Path("/bin/true").read_bytes())
    os.chmod(copy, 0o4755)
    return copy
