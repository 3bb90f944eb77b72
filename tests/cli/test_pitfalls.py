"""Traps that made comparisons wrong when they were met, each kept shut: see the table at the end of docs/compare.md.
Those that belong to one part (launcher, statistics, curves, sweeps) are beside that part's tests.
"""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from mortise import analysis, curves, elf, formats, knobs, machine, sweeps
from mortise.arms import Arm
from mortise.launching import Launcher, Request

from cli.conftest import ROOT, compile_c

MIB = 1 << 20
PURGE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static long now_us(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000 + t.tv_nsec / 1000; }
/* 64 MiB for a moment; then it is given back, or kept, while the program idles: several times as long as that moment was, however busy
   the machine. */
int main(int count, char** values) {
  size_t bytes = 64 << 20;
  long begin = now_us();
  char* block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return 1;
  memset(block, 1, bytes);
  if (count > 1 && strcmp(values[1], "purge") == 0) munmap(block, bytes);
  for (long until = now_us() + 250000 + 4 * (now_us() - begin); now_us() < until;) usleep(10000);
  return 0;
}
"""


@pytest.fixture(scope="module")
def purge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("purge")
    (folder / "purge.c").write_text(PURGE)
    return compile_c(folder / "purge.c", folder / "purge")


def measure(*words, memory=True, arm=None):
    return Launcher().run(Request([str(w) for w in words], arm or Arm("shipped", "shipped"), memory=memory)).facts


def test_the_peak_does_not_see_purging_and_the_average_does(purge):
    kept, purged = measure(purge, "keep"), measure(purge, "purge")
    assert kept["peak_rss_bytes"] == pytest.approx(purged["peak_rss_bytes"], rel=0.02)
    assert purged["avg_rss_bytes"] < 0.6 * kept["avg_rss_bytes"]


def test_average_memory_can_be_what_decides(cli, purge, tmp_path):
    words = ["--mem", "avg", "--rounds", "4", "--json", str(tmp_path / "o.json")]
    done = cli(
        "compare", *words, "--arms", f"keep=cmd:{purge} keep", "--arms", f"purge=cmd:{purge} purge", "--", str(purge)
    )
    memory = json.loads((tmp_path / "o.json").read_text())["arms"]["purge"]["vs_reference"]["memory"]
    assert memory["ratio"] < 0.6 and "average memory" in done.stdout


MAPS = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* 8 MiB of heap, and 64 MiB of a file whose pages are looked at. */
int main(int count, char** values) {
  size_t bytes = 64 << 20, sum = 0;
  char* block = malloc(8 << 20);
  memset(block, 1, 8 << 20);
  int file = open(values[count - 1], O_RDONLY);
  volatile char* map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) return 1;
  for (size_t at = 0; at < bytes; at += 4096) sum += (size_t)map[at];
  usleep(300000); /* so long that it is sampled while it holds all of it, on a busy machine as well */
  return sum == 0 && block[5] == 1 ? 0 : 1;
}
"""


def test_pages_of_files_are_no_heap(cli, tmp_path):
    """A program that maps a large file holds it in its RSS under any allocator; what the heap holds is the anonymous part."""
    (tmp_path / "maps.c").write_text(MAPS)
    (tmp_path / "data").write_bytes(bytes(64 << 20))
    program, data = compile_c(tmp_path / "maps.c", tmp_path / "maps", "-fno-builtin"), tmp_path / "data"
    facts = measure(program, data)
    assert facts["peak_rss_bytes"] > 72 * MIB and 8 * MIB <= facts["peak_anon_bytes"] < 10 * MIB
    words = ["--mem", "anon", "--rounds", "2", "--arms", "a=env:X=1,b=env:X=2", "--json", str(tmp_path / "o.json")]
    done = cli("compare", *words, "--", str(program), str(data))
    document = json.loads((tmp_path / "o.json").read_text())
    assert "anonymous memory" in done.stdout and document["arms"]["a"]["medians"]["peak_anon_bytes"] < 10 * MIB
    assert re.search(r"a +- +\S+ (?:ms|s) +reference +[89]\.\d+ MiB", done.stdout), done.stdout


def test_only_the_cheap_file_is_sampled_and_its_cost_is_small(purge):
    """`smaps_rollup` costs 8 µs a resident MB and holds the program's mmap lock; `statm` costs microseconds."""
    source = (ROOT / "cli/launcher/launcher.c").read_text()
    sampling = source[source.index("static long resident_bytes") : source.index("// The rollup costs")]
    assert "statm" in source and "smaps" not in sampling
    facts = measure(purge, "keep")
    assert facts["samples"] > 10 and facts["sampling_cost_s"] / facts["wall_s"] < 0.005


def test_sampling_does_not_disturb_the_program(churn):
    """CPU time of watched and unwatched runs in pairs: the median ratio is within what this machine can see. One interval in a hundred
    misses the truth, so a disturbance is one only if three in a row say so.
    """
    from mortise import stats

    found = []
    for _ in range(3):
        pairs = [[measure(churn, "400000", "8", memory=m)["cpu_s"] for m in (True, False)] for _ in range(16)]
        found.append(stats.interval(*zip(*pairs, strict=True)))
        if found[-1].low < 1.02 and found[-1].high > 0.98:
            return
    raise AssertionError(found)


def test_huge_pages_governor_and_load_are_in_every_report():
    facts = machine.facts()
    assert facts["transparent_huge_pages"] in ("always", "madvise", "never", "unknown")
    assert {"governor", "load", "virtual", "aslr", "counters", "cpus", "kernel", "page_bytes"} <= facts.keys()


HUGE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char** values) {
  size_t bytes = (size_t)64 << 20;
  char* block = aligned_alloc(2 << 20, bytes);
  madvise(block, bytes, count > 1 && strcmp(values[1], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  for (size_t at = 0; at < bytes; at += 65536) block[at] = 1;
  char line[256];
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  long kilobytes = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) sscanf(line, "AnonHugePages: %ld", &kilobytes);
  printf("%ld\\n", kilobytes);
  return 0;
}
"""


def test_memory_in_huge_pages_is_said(cli, tmp_path):
    """One page in sixteen touched: with huge pages all of it is resident, and that is not the allocator's waste. How many of them the
    kernel has to give is told by the program itself.
    """
    (tmp_path / "huge.c").write_text(HUGE)
    program = compile_c(tmp_path / "huge.c", tmp_path / "huge", "-fno-builtin")
    small, large = (Launcher().run(Request([str(program), how], Arm("shipped", "shipped"), memory=True)) for how in ("small", "huge"))
    assert small.facts["huge_page_bytes"] == int(small.stdout) == 0
    assert large.facts["huge_page_bytes"] == int(large.stdout) * 1024
    assert machine.facts()["transparent_huge_pages"] != "never" or int(large.stdout) == 0
    if large.facts["huge_page_bytes"] > 32 * MIB:
        assert large.facts["peak_rss_bytes"] > 4 * small.facts["peak_rss_bytes"]
    arms = ["--arms", f"small=cmd:{program} small", "--arms", f"huge=cmd:{program} huge", "--check", "exit", "--json", str(tmp_path / "o.json")]
    done = cli("compare", "--rounds", "2", *arms, "--", str(program))
    runs = json.loads((tmp_path / "o.json").read_text())["arms"]["huge"]["runs"]
    most = max(run["huge_page_bytes"] for run in runs if run["kind"] == "memory")
    said = f"huge pages hold {formats.size(most)} of huge's memory"
    assert (said in done.stdout) == (most > analysis.HUGE_WORTH_SAYING), done.stdout


def test_runs_too_short_to_compare_are_said_to_be(cli):
    words = ["compare", "--rounds", "2", "--arms", "glibc,b=env:X=2"]
    said = cli(*words, "--", "true").stdout
    assert re.search(r"one run takes under 50 ms.*, or repeat main: --repeat-inside \d+\n", said), said
    many = cli(*words, "--repeat-inside", "2000", "--", "true").stdout
    assert "main ran 2000 times in each time run" in many and "one run takes under 50 ms" not in many
    first_times = [re.search(r"glibc .*?([\d.]+) (µs|ms) ", text).groups() for text in (said, many)]
    start, main = (float(number) * {"µs": 1, "ms": 1000}[unit] for number, unit in first_times)
    assert main < start


def test_what_cannot_be_repeated_is_refused(cli, static_program, churn):
    words = ["compare", "--repeat-inside", "3", "--arms", "a=env:X=1,b=env:X=2"]
    assert "preloading cannot work" in cli.refused(3, *words, "--", str(static_program))
    assert "leave it out for a server" in cli.refused(2, *words, "--load", "true", "--", str(churn))
    done = cli(*words, "--arms", f"c=cmd:{static_program}", "--check", "exit", "--rounds", "2", "--", str(churn))
    assert done.returncode == 1 and "was not repeated: it is static" in done.stdout.replace("\n", " ")


def test_repetition_changes_no_check_and_no_memory(cli, churn, tmp_path):
    """Time runs print so many times what memory runs print once: each is held against its own kind."""
    words = ["--repeat-inside", "5", "--rounds", "4", "--arms", "a=env:X=1,b=env:X=2", "--json", str(tmp_path / "o.json")]
    done = cli("compare", *words, "--", str(churn), "1000", "30")
    arms = json.loads((tmp_path / "o.json").read_text())["arms"]
    assert done.returncode == 3 and not any(entry["failure"] for entry in arms.values())
    runs = arms["a"]["runs"]
    assert len({run["stdout_sha256"] for run in runs if run["kind"] != "memory"}) == 1 < len({run["stdout_sha256"] for run in runs})
    peaks = [run["peak_rss_bytes"] for run in runs]
    assert max(peaks) - min(peaks) < 8 * MIB  # of 30, all of which a second repetition would add; pages of libraries vary from run to run


def test_one_baseline_for_all_arms_so_that_fixed_costs_stay_charged(cli, churn, mortise_home, tmp_path):
    """A library with 32 MiB of its own at start must not have them taken off again as its own 'baseline'."""
    (tmp_path / "fat.c").write_text(
        "#include <string.h>\nstatic char ballast[32 << 20];\n"
        "__attribute__((constructor)) static void fill(void) { memset(ballast, 1, sizeof ballast); }\n"
        + (mortise_home / "toy.c").read_text()
    )
    fat = compile_c(tmp_path / "fat.c", tmp_path / "libfat.so", "-shared", "-fPIC", "-fno-builtin")
    cli(
        "compare",
        "--rounds",
        "2",
        "--arms",
        f"glibc,fat={fat}",
        "--json",
        str(tmp_path / "o.json"),
        "--",
        str(churn),
        "10",
        "2",
    )
    arms = json.loads((tmp_path / "o.json").read_text())["arms"]
    difference = arms["fat"]["medians"]["peak_rss_bytes"] - arms["glibc"]["medians"]["peak_rss_bytes"]
    assert difference == pytest.approx(32 * MIB, rel=0.1)
    assert arms["fat"]["vs_reference"]["memory"]["ratio"] > 3


def test_user_time_alone_never_decides(cli, churn, tmp_path):
    """The kernel splits user and system by ticks: only their sum is exact. Two arms that differ by the split are the same."""
    cli("compare", "--rounds", "12", "--arms", "a=env:X=1,b=env:X=2", "--json", str(tmp_path / "o.json"), "--", str(churn), "100")
    document = json.loads((tmp_path / "o.json").read_text())
    for number, run in enumerate(document["arms"]["a"]["runs"] + document["arms"]["b"]["runs"] + document["control"]["runs"]):
        run["cpu_s"] = 1.0 + number % 3 / 1000
    for run in document["arms"]["b"]["runs"]:
        run["user_s"], run["sys_s"] = 0.1, 0.9
    for run in document["arms"]["a"]["runs"]:
        run["user_s"], run["sys_s"] = 0.9, 0.1
    assert analysis.conclude(document)["arms"]["b"]["vs_reference"]["time"]["verdict"] == "no difference"


def test_a_wrapper_that_only_executes_keeps_the_spawners_peak(tmp_path):
    """A shell that executes one command is no cure: there must be a fork from a small process, as the launcher's is."""
    text = (
        "import os, subprocess\n"
        "ballast = bytearray(300 << 20)\n"
        "ballast[::4096] = b'x' * len(ballast[::4096])\n"
        "p = subprocess.Popen(['sh', '-c', 'exec true'])\n"
        "print(os.wait4(p.pid, 0)[2].ru_maxrss * 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 250 * MIB
    assert measure("sh", "-c", "exec true", memory=False)["peak_rss_bytes"] < 4 * MIB


def test_a_real_static_go_program_is_refused_with_the_reason(cli, tmp_path):
    """Three preloads that never happen would look like a tie. What the environment alone changes can still be compared."""
    program = tmp_path / "gochurn"
    environment = os.environ | {"CGO_ENABLED": "0", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off", "GOFLAGS": ""}
    go = "/usr/bin/go" if os.path.exists("/usr/bin/go") else "go"
    subprocess.run([go, "build", "-o", str(program), str(ROOT / "cli/cases/churn.go")], env=environment, check=True)
    for command in (["run", "--alloc", "toy"], ["compare", "--arms", "glibc,toy"], ["latency"]):
        assert "statically linked: preloading cannot work" in cli.refused(3, *command, "--", str(program), "1000", "100")
    words = ["--arms", "as-shipped", "--sweep", "GOGC={25,400}", "--rounds", "1", "--warmup", "0", "--json", str(tmp_path / "o.json")]
    cli("compare", *words, "--", str(program), "100000", "10000")
    points = json.loads((tmp_path / "o.json").read_text())["curves"]["as-shipped"]["points"]
    assert {p["knob"] for p in points} == {"unset", "25", "400"}


def test_turning_a_knob_switches_adaptivity_off_and_the_unset_point_shows_it(tmp_path):
    """glibc's threshold for mappings grows with what is freed, until MALLOC_TRIM_THRESHOLD_ is set to anything at all."""
    (tmp_path / "large.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) { for (int i = 0; i < 500; i++) { char* p = malloc(400000); memset(p, i, 400000); free(p); } }\n"
    )
    program = compile_c(tmp_path / "large.c", tmp_path / "large", "-fno-builtin")
    unset = measure(program, memory=False)["minor_faults"]
    huge = Arm("huge", "environment", env={"MALLOC_TRIM_THRESHOLD_": str(1 << 30)})
    assert measure(program, memory=False, arm=huge)["minor_faults"] > 50 * unset / 2
    assert all(sweep.values[0] == sweeps.UNSET for sweep in sweeps.parse_all(["glibc"], [Arm("glibc", "glibc")], ["x"]))


def test_a_variable_that_nothing_reads_is_said_to_be_unverified(cli, tmp_path):
    """Names differ between versions, and an unknown one is ignored without a word: then a curve is a tie that means nothing."""
    (tmp_path / "reads.c").write_text(
        '#include <stdlib.h>\nint main(void) { return getenv("KNOB_THAT_IS_READ") == NULL && getenv("OTHER") != NULL; }\n'
    )
    program = compile_c(tmp_path / "reads.c", tmp_path / "reads")
    words = ["compare", "--arms", "a=env:X=1", "--rounds", "1", "--warmup", "0"]
    said = cli(*words, "--sweep", "KNOB_THAT_IS_NOT={1,2}", "--", str(program))
    line = "nothing that 'a' loads mentions KNOB_THAT_IS_NOT: unverified that it has any effect"
    assert line in said.stdout and line in said.stderr
    assert "unverified" not in cli(*words, "--sweep", "KNOB_THAT_IS_READ={1,2}", "--", str(program)).stdout


def test_a_knob_that_shows_an_effect_needs_no_other_proof(cli, tmp_path):
    """A virtual machine loads what reads its options while it runs: the name is in nothing that its launcher links, and the curve tells."""
    (tmp_path / "hides.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        'int main(void) { char name[] = {75, 78, 79, 66, 88, 0}; const char* v = getenv(name); size_t n = (v ? atoi(v) : 1) << 20;\n'
        "  memset(malloc(n), 1, n); return 0; }\n"
    )
    program = compile_c(tmp_path / "hides.c", tmp_path / "hides", "-fno-builtin")
    words = ["compare", "--arms", "a=env:X=1", "--rounds", "3", "--sweep", "KNOBX={8,16,24}", "--", str(program)]
    done = cli(*words)
    assert "mentions KNOBX: unverified" in done.stderr and "unverified" not in done.stdout


def test_a_knob_is_looked_for_as_the_allocator_spells_it(tmp_path):
    (tmp_path / "prefixed.c").write_text('const char* option = "purge_delay";\n')
    library = compile_c(tmp_path / "prefixed.c", tmp_path / "libprefixed.so", "-shared", "-fPIC")
    image = elf.Image(tmp_path / "program", "", 64)
    arm = Arm("mine", "library", str(library))
    known, unknown = (sweeps.parse(f"MIMALLOC_{name}={{0,1}}", {"mine"}) for name in ("PURGE_DELAY", "PURGE_EXTENDS"))
    assert knobs.unverified([known], [arm], image) == []
    assert "MIMALLOC_PURGE_EXTENDS" in knobs.unverified([unknown], [arm], image)[0]
    keys = sweeps.parse("MALLOC_CONF=dirty_decay_ms:{0,1},o=1", {"mine"})
    assert knobs.names_of(keys) == ["MALLOC_CONF", "dirty_decay_ms"]


@pytest.mark.parametrize("command", ("compare --rounds 1 --warmup 0 --arms glibc,toy", "latency --arms glibc"))
def test_an_input_that_no_run_reads_is_said(cli, churn, command, tmp_path):
    """Compared on no input at all, a filter differs in nothing."""
    (tmp_path / "input").write_text("a\n")
    ours = f"{sys.executable} {ROOT / 'cli'} {command}"
    for words, is_said in ((f"-- {churn} < {tmp_path}/input", True), (f"-- {churn} < /dev/null", False), (f"--stdin {tmp_path}/input -- {churn} < {tmp_path}/input", False)):
        done = subprocess.run(["sh", "-c", f"{ours} {words}"], capture_output=True, text=True, check=False)
        assert ("reads nothing of the standard input that is there: name a file with --stdin" in done.stdout + done.stderr) == is_said, words
    reading, writing = os.pipe()
    os.write(writing, b"a")
    assert "name a file with --stdin" in cli(*command.split(), "--", str(churn), stdin=reading).stderr


def test_memory_that_comes_in_steps_gives_no_law():
    """A heap that grows by 15 % at a time holds the same at several values: those are one point each, not more."""
    steps = [129, 129, 148, 148, 170, 170, 223]
    points = [curves.Point(str(i), np.full(3, 1.0 + (7 - m / 32) / 10), np.full(3, float(m))) for i, m in enumerate(steps)]
    law, why = curves.fit(points, seed=1, repeats=4)
    assert law is None and "from 4 distinct points" in why


def test_wall_and_cpu_time_stand_side_by_side(cli, tmp_path):
    """Threads that never overlap, or that a neighbour held up, show as wall time beside CPU time, in every row."""
    done = cli("compare", "--rounds", "2", "--arms", "a=env:X=1,b=env:X=2", "--", "sleep", "0.2")
    times = [float(number) * {"ms": 1, "s": 1000}[unit] for number, unit in re.findall(r"([\d.]+) (ms|s) wall", done.stdout)]
    assert len(times) == 2 and min(times) >= 200, done.stdout


def test_nothing_relies_on_niceness():
    """It does not cross sessions: every session is a group of its own to the scheduler."""
    sources = [*(ROOT / "cli/mortise").rglob("*.py"), *(ROOT / "cli/launcher").glob("*.c")]
    for path in sources:
        assert not re.search(r"\bos\.nice\b|setpriority|\bnice\(", path.read_text()), path


def test_redis_as_shipped_is_jemalloc(cli):
    """The baseline that many published comparisons call glibc."""
    done = cli("doctor", "--json", "--", "redis-server")
    document = json.loads(done.stdout)
    assert document["as_shipped"] == "jemalloc"
    assert any('"as shipped" is jemalloc, not glibc' in finding["text"] for finding in document["findings"])


def test_glibc_in_front_of_a_linked_allocator(cli, tmp_path):
    """Where the program brings its own allocator, the glibc arm has to be made, and is proven."""
    ready = ["--ready", "redis-cli -s {tmp}/s ping", "--load", "redis-cli -s {tmp}/s info memory",
             "--stop", "redis-cli -s {tmp}/s shutdown nosave", "--rounds", "1", "--warmup", "0"]  # fmt: skip
    server = ["redis-server", "--port", "0", "--unixsocket", "{tmp}/s", "--save", "", "--dir", "{tmp}"]
    done = cli("compare", *ready, "--arms", "as-shipped,glibc", "--json", str(tmp_path / "o.json"), "--", *server)
    assert 'redis-server links libjemalloc.so.2: "as shipped" is jemalloc, not glibc' in done.stdout
    arms = json.loads((tmp_path / "o.json").read_text())["arms"]
    assert "libjemalloc" in " ".join(arms["as-shipped"]["malloc_from"])
    assert arms["glibc"]["served"] == 1 and arms["glibc"]["malloc_from"][0].endswith("libc.so.6")


def test_the_guide_names_tests_that_exist():
    guide = (ROOT / "docs/compare.md").read_text()
    for name in set(re.findall(r"`(test_\w+)`", guide)):
        assert (ROOT / f"tests/cli/{name}.py").exists(), name
    named = set(re.findall(r"`(test_\w+)::(test_\w+)`", guide))
    assert len(named) > 40
    for name, function in named:
        assert f"def {function}(" in (ROOT / f"tests/cli/{name}.py").read_text(), f"{name}::{function}"
    for target in re.findall(r"\]\(([^)#]+)\)", guide):
        assert (ROOT / "docs" / target).exists(), target


def test_the_words_of_the_guide_are_the_words_of_the_tool():
    guide = (ROOT / "docs/compare.md").read_text()
    for word in ("can't tell", "no difference", "as measured", "dominates", "better on average"):
        assert word in guide
    result = {"ratio": 0.9, "verdict": "faster"}
    assert analysis.word(result) == "10.0 % less"


def test_the_cases_of_the_guide_are_well_formed(tmp_path):
    subprocess.run(["bash", "-n", str(ROOT / "cli/cases/run.sh")], check=True)
    subprocess.run(["bash", "-n", str(ROOT / "cli/demo/demo.sh")], check=True)
    for name in ("server.c", "frag.c"):
        compile_c(ROOT / "cli/cases" / name, tmp_path / name.removesuffix(".c"))
    done = subprocess.run([str(tmp_path / "frag"), "1"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().isdigit()


def test_a_noisy_machine_is_said_to_be_noisy():
    quiet = {"arms": {"a": {"runs": [{"kind": "time", "wall_s": 1 + i / 100} for i in range(10)]}}}
    noisy = {"arms": {"a": {"runs": [{"kind": "time", "wall_s": 1 + i % 2} for i in range(10)]}}}
    assert not analysis.restless(quiet) and analysis.restless(noisy)
