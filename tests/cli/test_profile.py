"""The allocation profile against programs whose requests are known: it must count truly and must not change them."""

import json

import jsonschema
import pytest
from mortise import profiles
from mortise.arms import Arm
from mortise.launching import Launcher, Request

from cli.conftest import compile_c
from cli.test_commands import schema

KNOWN = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void* blocks[100];
static void* release(void* unused) {
  for (int i = 0; i < 50; i++) free(blocks[i]);
  return unused;
}
int main(int count, char** values) {
  (void)values;
  for (int i = 0; i < 100; i++) blocks[i] = malloc(3000);
  pthread_t thread;
  pthread_create(&thread, NULL, release, NULL);
  pthread_join(thread, NULL);
  for (int i = 50; i < 100; i++) free(blocks[i]);
  void* p = NULL;
  if (posix_memalign(&p, 4096, 100000) != 0) return 1;
  p = realloc(p, 200000);
  free(p);
  for (int i = 0; i < 7; i++) free(aligned_alloc(64, 640));
  free(calloc(10, 1000));
  if (count > 1 && fork() == 0) { for (int i = 0; i < 1000; i++) free(malloc(7)); exit(0); }
  wait(NULL);
  return 0;
}
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    (folder / "known.c").write_text(KNOWN)
    return compile_c(folder / "known.c", folder / "known", "-fno-builtin", "-pthread")


def profile(*words, library=None):
    request = Request([str(w) for w in words], Arm("arm", "shipped", library and str(library)))
    return profiles.trace(Launcher(), request, [{"cpu_s": 0.01, "wall_s": 0.01}])


@pytest.mark.parametrize("in_front_of_another", (False, True))
def test_counts_are_what_the_program_asked(known, toy, in_front_of_another):
    found = profile(known, library=toy if in_front_of_another else None)
    assert found["failure"] is None
    assert found["sizes"][12] == 100 and found["size_bytes"][12] == 300000, "3000 bytes lie from 2048 to 4095"
    assert found["sizes"][17] == 1 and found["sizes"][18] == 1 and found["sizes"][10] == 7
    assert found["cross_thread"] == 50 and found["aligned"] == 8 and found["resized"] == 1
    assert found["peak_bytes"] >= 300000 and found["untracked"] == 0
    assert found["allocations"] - found["frees"] == found["left_blocks"] >= 0
    assert sum(found["ages"]) == found["frees"] and sum(found["sizes"]) == found["allocations"]


def test_processes_add_up(known):
    alone, with_child = profile(known), profile(known, "fork")
    assert with_child["processes"] == 2
    assert with_child["sizes"][3] - 2 * alone["sizes"][3] == 1000


def test_real_programs_say_the_same_when_traced(mortise_home):
    text = "import json, threading\nprint(sum(len(json.dumps({'k': i})) for i in range(20000)))"
    plain = Launcher().run(
        Request(["/usr/bin/python3", "-c", text], Arm("a", "shipped", env={"PYTHONMALLOC": "malloc"}))
    )
    request = Request(["/usr/bin/python3", "-c", text], Arm("a", "shipped", env={"PYTHONMALLOC": "malloc"}))
    request.trace = mortise_home / "unused"
    assert Launcher().run(request).stdout == plain.stdout != b""


def test_a_program_that_leaves_nothing_says_so(known):
    assert "left no counts" in profile("sh", "-c", "kill -9 $$")["failure"]


def test_the_profile_comes_with_a_page_and_is_priced(cli, churn, tmp_path):
    words = ["compare", "--rounds", "2", "--arms", "glibc,toy", "--json", str(tmp_path / "o.json")]
    done = cli(*words, "--html", str(tmp_path / "o.html"), "--", str(churn), "3000000")
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("compare"))
    assert document["profile"]["allocations"] >= 3000000 and document["profile"]["cost"] > 1
    assert "profile: 3000" in done.stdout and "times the CPU time" in done.stdout
    assert 'id="sizes"' in (tmp_path / "o.html").read_text()
    done = cli(*words, "--", str(churn))
    assert "profile" not in json.loads((tmp_path / "o.json").read_text())


def test_shares_of_a_histogram():
    assert profiles.below([0, 0, 10, 0, 10], 0.5) == 3
    assert profiles.below([0, 0, 10, 0, 10], 0.99) == 15
    assert profiles.below([0] * 48, 0.5) == 0


def test_system_calls_are_counted_of_all_processes_and_change_nothing(tmp_path):
    text = "import mmap, os\nfor i in range(50): mmap.mmap(-1, 4096).close()\nif os.fork() == 0:\n [mmap.mmap(-1, 4096).close() for i in range(30)]\nelse: os.wait()\nprint('done')"
    request = Request(["/usr/bin/python3", "-c", text], Arm("a", "shipped"))
    plain = Request(["/usr/bin/python3", "-c", "import mmap, os"], Arm("a", "shipped"))
    found, least = (profiles.count_calls(Launcher(), r)["counts"] for r in (request, plain))
    assert 80 <= found["munmap"] - least["munmap"] <= 90 and found["all"] > found["mmap"] + found["munmap"]
    assert sum(n for name, n in found.items() if name != "all") == found["all"]
    request.calls = tmp_path / "counts"
    assert Launcher().run(request).stdout == b"done\ndone\n"
    killed = Launcher().run(Request(["sh", "-c", "kill -9 $$"], Arm("a", "shipped"), calls=tmp_path / "counts"))
    assert killed.facts["exit_status"] == 128 + 9


def test_every_arm_has_its_calls_and_latencies_beside_the_rounds(cli, churn, tmp_path):
    """They come with a page, or where they are asked for; never in a run that counts for a verdict."""
    words = ["compare", "--rounds", "2", "--arms", "glibc,toy", "--json", str(tmp_path / "o.json")]
    cli(*words, "--html", str(tmp_path / "o.html"), "--", str(churn), "30000")
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("compare"))
    jsonschema.validate(document["latency"], schema("latency"))
    assert document["latency"]["settings"]["every"] == 64
    assert document["system_calls"]["toy"]["counts"]["mmap"] > 0
    assert document["latency"]["arms"]["toy"]["kinds"]["malloc"]["calls"] >= 30000
    assert {run["kind"] for run in document["arms"]["toy"]["runs"]} <= {"warmup", "time", "memory"}
    cli(*words, "--latency", "full", "--", str(churn), "30000")
    document = json.loads((tmp_path / "o.json").read_text())
    assert document["latency"]["arms"]["glibc"]["kinds"]["free"]["timed"] >= 30000 and "system_calls" not in document
    assert "expected off or sampled or full" in cli.refused(2, *words, "--latency", "some", "--", str(churn))
