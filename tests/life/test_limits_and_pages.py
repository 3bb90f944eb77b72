"""Should a limit be passed, the system would end the program; should it bite early, memory would lie idle."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from support.allocators import CARDS, NAMES, environment, has_layer, program, run

LIMIT = 100_000_000
MOST_GIVEN = 1.125 * LIMIT  # while less than the limit is in memory
ENOMEM = 12
# What a name may touch beyond the 2 %: samples lie at random places of a chunk, which the kernel was asked about before they did.
BESIDE = {"hslab_profiled": 512 << 10}
LIMITED = [n for n in NAMES if any(layer["name"] == "LimitedTo" for layer in CARDS[n]["layers"])]
EVERY_NAME = pytest.mark.parametrize("name", NAMES)
# Alike and mixed, small and large; and those of which rounding wastes most: a little more than a class, a granule, a power of two.
MIXES = [(16, 16), (16, 256), (64, 64), (200, 200), (48, 1000), (1000, 1000), (16, 8192), (4096, 4096), (5000, 30_000), (16, 65_536),
         (20_000, 20_000), (33_000, 33_000), (60_000, 60_000), (66_000, 66_000), (132_000, 132_000), (263_000, 263_000), (70_000, 300_000),
         (1 << 20, 1 << 20), (16, 1 << 20), (100_000, 3_000_000)]


def filled(name, low, high, *more, on=(), **env):
    lines = run([*on, program("life", "filler"), low, high, *more], name, env=env).ok().out.split("\n", 1)
    words = lines[0].split()
    pairs = zip(words[::2], map(int, words[1::2]), strict=True)
    return {**dict(pairs), "stats": json.loads(lines[1])}


def test_every_allocator_can_be_limited():
    assert set(NAMES) == set(LIMITED)


@pytest.mark.parametrize("low, high", MIXES[::3])
@pytest.mark.parametrize("name", [n for n in NAMES if has_layer(n, "PerNode")])
@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:2])
def test_memory_of_two_nodes_ends_at_one_limit(name, cpu, low, high):
    check_end(name, low, high, on=["taskset", "-c", str(cpu)], MORTISE_NODES="0;1")


@EVERY_NAME
@pytest.mark.parametrize("low, high", MIXES)
def test_memory_ends_at_the_limit(name, low, high):
    check_end(name, low, high)


def check_end(name, low, high, on=(), **env):
    seen = filled(name, low, high, on=on, MORTISE_CONF=f"limit={LIMIT},purge_ms=-1", **env)
    assert seen["errno"] == seen["again_errno"] == ENOMEM
    stats = seen["stats"]
    least, most = 0.98 * LIMIT - seen["refused"], 1.02 * LIMIT + BESIDE.get(name, 0)
    if name in BESIDE and stats["mapped_bytes"] >= 0.98 * MOST_GIVEN - seen["refused"]:
        least = min(least, seen["bytes"])  # of what was given out so much lies between samples that no more was to be had
    assert stats["limit_bytes"] == LIMIT and stats["refused"] > 0
    if name != "hslab+affinity":  # whose pools lie elsewhere: of them the process's own size tells
        tables = stats["bookkeeping_bytes"] if env else 0  # between the windows of nodes lie those of the first
        assert least <= stats["resident_bytes"] <= most + tables
    assert least <= seen["rss"] <= most + stats["bookkeeping_bytes"]
    assert seen["again_bytes"] >= 0.95 * seen["bytes"], "what was freed can be had again"


@EVERY_NAME
@pytest.mark.parametrize("low, high", [(16, 8192), (132_000, 132_000), (70_000, 300_000)])
def test_who_touches_late_what_it_got_passes_the_limit_by_an_eighth_at_most(name, low, high):
    seen = filled(name, low, high, "late", MORTISE_CONF=f"limit={LIMIT},purge_ms=-1")
    assert seen["errno"] == ENOMEM
    assert seen["rss"] <= 1.02 * MOST_GIVEN + seen["stats"]["bookkeeping_bytes"]


@pytest.mark.parametrize("name", [n for n in NAMES if has_layer(n, "SizeCheck")])
def test_at_a_limit_a_delete_that_names_its_size_is_right(name):
    """A block of a larger class, given where there was no other, was larger than asked for: the honest delete ended the program."""
    assert run([program("life", "deletes")], name, env={"MORTISE_CONF": "limit=30M"}).ok().err == ""


@pytest.mark.parametrize("text, limit", [("64M", 64 << 20), ("65536K", 64 << 20), ("1G", 1 << 30), ("67108864", 64 << 20)])
def test_limits_are_written_as_people_write_them(text, limit):
    said = run(["/bin/true"], "hslab", env={"MORTISE_CONF": f"verbose=1,limit={text}"}).ok().err
    assert f" limit={limit} " in said


@pytest.mark.parametrize("setting, takes", [("limit=much", "bytes such as 100M"), ("limit=0", "bytes such as"),
                                            ("soft_limit=101%", "a share such as 90%"), ("limit=1Q", "or none"),
                                            ("limit=99999999999999999999", "bytes"), ("limit=99999999T", "bytes"), ("huge=yes", "never, madvise or auto")])
def test_a_limit_that_is_none_is_told(setting, takes):
    line, = run(["/bin/true"], "hslab", env={"MORTISE_CONF": setting}).ok().err.splitlines()
    assert f"setting '{setting}' is ignored; it takes" in line and takes in line


@pytest.mark.parametrize("setting", ["limit=99999999T", "limit=17592186044417T", "limit=101%", "soft_limit=101%", "soft_limit=99999999T"])
def test_what_is_ignored_changes_nothing(setting):
    """A limit of what is left of the number would be one that nobody asked for."""
    line, = run(["/bin/true"], "hslab", env={"MORTISE_CONF": setting, "MORTISE_VERBOSE": "1"}).ok().err.splitlines()[1:]
    assert "limit=" not in line


@pytest.mark.parametrize("name", NAMES)
def test_a_soft_limit_holds_wherever_spans_are_cached_and_is_told_of_elsewhere(name):
    env = {"MORTISE_CONF": "soft_limit=64M", "MORTISE_VERBOSE": "1"}
    said = run(["/bin/true"], name, env=env).ok().err
    if has_layer(name, "SpanCache") or has_layer(name, "SpanReserve"):
        assert said.count("\n") == 1 and f" soft_limit={64 << 20} " in said
    else:
        assert "setting 'soft_limit=64M' is ignored; it takes an allocator that caches spans, such as hslab\n" in said


@pytest.mark.parametrize("name", ["hslab", "hslab_hardened"])
def test_above_the_soft_limit_nothing_stays_dirty(name):
    blocks = "for i in range(20): b = [bytearray(3 << 20) for _ in range(10)]; b = None"
    env = {"MORTISE_CONF": "stats=exit,purge_ms=100000", "PYTHONMALLOC": "malloc"}
    loose = run(["/usr/bin/python3", "-c", blocks], name, env=env).ok().err
    tight = run(["/usr/bin/python3", "-c", blocks], name, env={**env, "MORTISE_SOFT_LIMIT": "4M"}).ok().err
    dirty = [int(re.search(r"free, resident bytes  = (\d+)", said)[1]) for said in (loose, tight)]
    assert dirty[0] >= 20 << 20 and dirty[1] <= 4 << 20


@pytest.mark.parametrize("name", ["hslab", "hslabd", "hslab_hardened"])
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has one cache")
def test_above_the_soft_limit_caches_of_other_cores_are_emptied_while_the_program_is_busy(name):
    """By the thread that gives memory back; the program's own free asks for nothing that reaches other cores."""
    run([program("life", "pressed")], name, env={"MORTISE_CONF": "soft_limit=1M"}).ok()


@pytest.mark.parametrize("huge, flag", [("never", "nh"), ("madvise", "hg"), ("auto", None)])
def test_the_policy_on_huge_pages_reaches_the_kernel(huge, flag):
    script = "import os,sys; b = bytearray(1 << 20); sys.stdout.write(open('/proc/self/smaps').read())"
    smaps = run(["/usr/bin/python3", "-c", script], "hslab", env={"MORTISE_CONF": f"huge={huge},stats=json"}).ok()
    start = json.loads(smaps.err)["window_start"]
    flags = {m[2] for m in re.finditer(r"^([0-9a-f]+)-[^\n]*\n(?:\w+:.*\n)*?VmFlags:(.*)$", smaps.out, re.M)
             if start <= int(m[1], 16) < start + (1 << 42)}
    assert flags
    assert all((flag in f.split()) if flag else not {"nh", "hg"} & set(f.split()) for f in flags)


def test_a_heap_that_rests_wants_no_huge_pages():
    """A kernel that may use them fills what was given back with them, while the program sleeps."""
    script = """
import ctypes, sys
libc = ctypes.CDLL(None)
def take(): return [bytearray(4 << 20) for _ in range(20)]
def show(): print(open('/proc/self/smaps').read(), '=====')
b = take(); show(); b = None; libc.malloc_trim(0); show(); b = take(); show()
"""
    smaps = run(["/usr/bin/python3", "-c", script], "hslab", env={"MORTISE_CONF": "stats=json"}).ok()
    start = json.loads(smaps.err)["window_start"]
    asked = [{flag for m in re.finditer(r"^([0-9a-f]+)-[^\n]*\n(?:\w+:.*\n)*?VmFlags:(.*)$", shown, re.M)
              if start <= int(m[1], 16) < start + (1 << 42) for flag in m[2].split()} & {"hg", "nh"} for shown in smaps.out.split("=====")[:3]]
    assert asked == [{"hg"}, {"nh"}, {"hg"}]


class Group:
    """A control group of version 1 or 2 with a controller, of this test alone."""

    def __init__(self, controller):
        self.folder = Path(f"/sys/fs/cgroup/{controller}/mortise-test-{os.getpid()}")
        unified = Path("/sys/fs/cgroup/cgroup.controllers")
        if unified.exists():
            self.folder = Path(f"/sys/fs/cgroup/mortise-test-{os.getpid()}")
        self.is_unified = unified.exists()

    def __enter__(self):
        try:
            self.folder.mkdir()
        except OSError as e:
            pytest.skip(f"control groups cannot be made here: {e.strerror}")
        return self

    def set(self, **files):
        for name, value in files.items():
            try:
                (self.folder / name.replace("__", ".")).write_text(str(value))
            except OSError as e:
                pytest.skip(f"the controller is not to be had here: {e.strerror}")

    def run(self, command, name, **env):
        script = f"echo $$ > {self.folder}/cgroup.procs; exec \"$@\""
        return subprocess.run(["sh", "-c", script, "sh", *map(str, command)], env=environment(name, **env),
                              capture_output=True, text=True, timeout=600)

    def __exit__(self, *_):
        self.folder.rmdir()


def test_the_control_groups_memory_is_heeded():
    with Group("memory") as group:
        group.set(**({"memory__max": 200 << 20} if group.is_unified else {"memory__limit_in_bytes": 200 << 20}))
        said = group.run(["/bin/true"], "hslab", MORTISE_VERBOSE="1").stderr
        assert f"soft_limit={(200 << 20) // 100 * 80}" in said, said
        done = group.run([program("life", "filler"), 1000, 1000], "hslab", MORTISE_CONF="limit=75%")
        assert done.returncode == 0 and done.stdout.startswith(f"errno {ENOMEM} bytes 15"), (done.returncode, done.stdout[:80])
        killed = group.run([program("life", "filler"), 1000, 1000], "hslab")
        assert killed.returncode == -9, "without a limit the system ends the program: the test would prove nothing"


def test_the_control_groups_cpu_quota_is_heeded():
    with Group("cpu") as group:
        group.set(**({"cpu__max": "100000 100000"} if group.is_unified else {"cpu__cfs_quota_us": 100000}))
        assert " cpus=1 " in group.run(["/bin/true"], "hslab", MORTISE_VERBOSE="1").stderr
