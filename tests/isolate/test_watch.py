"""If these fail, --watch misses what threads fight over, or blames memory they do not fight over."""

import json
import re
import subprocess

import jsonschema
import pytest

from .conftest import ROOT, run
from .test_refusals import mortise

WATCH_MS = (4000, 16_000, 64_000)  # of the watched program; rounds are held every few milliseconds, on a busy machine ten times as seldom
ROUNDS_ENOUGH = 100  # a line shows in every fourth round where threads do not always get a core when they alone may run


def watched_long_enough(folder, lines, *command, rounds=ROUNDS_ENOUGH):
    """What was printed and found: again, for longer, until so many lines have been found, or there were enough rounds to find them."""
    for milliseconds in WATCH_MS:
        done = mortise("--watch", "--json", folder / "found.json", "--html", folder / "found.html", "--", *command, milliseconds)
        if "not watching" in done.err:
            return done, None
        assert done.status == 0, done.err
        found = json.loads((folder / "found.json").read_text())
        if len(found["lines"]) >= lines or found["rounds"] >= rounds:
            break
    return done, found


@pytest.fixture(scope="module")
def watched(program, tmp_path_factory):
    """What was printed, found and drawn; None where this kernel has no means, which must then have been said."""
    folder = tmp_path_factory.mktemp("watch")
    done, found = watched_long_enough(folder, 2, program("planted"))
    if found is None:
        assert done.status == 1 and "Linux 6.7 or newer" in done.err
        return None
    return done, found, (folder / "found.html").read_text()


def line_of(source, text):
    return next(number for number, line in enumerate(source.read_text().splitlines(), 1) if text in line)


def test_both_planted_lines_and_nothing_else(watched):
    if watched is None:
        return
    _, found, _ = watched
    by_sharing = {line["sharing"]: line for line in found["lines"]}
    assert len(found["lines"]) == 2 and set(by_sharing) == {"true", "false"}
    assert [w["thread"] for w in by_sharing["false"]["writers"]] == [1, 2]
    assert [w["thread"] for w in by_sharing["true"]["writers"]] == [3, 4]
    source = ROOT / "tests/isolate/programs/planted.c"
    for sharing, line in by_sharing.items():
        at = line["object"]["allocated_at"]["source"]
        assert at.endswith(f"planted.c:{line_of(source, f'allocation of the {sharing} sharing')}")
        assert line["object"]["bytes"] == 64


def test_bytes_of_false_sharing_are_apart(watched):
    if watched is None:
        return
    _, found, _ = watched
    left, right = next(line for line in found["lines"] if line["sharing"] == "false")["writers"]
    assert left["last_byte"] < 8 <= right["first_byte"] <= right["last_byte"] < 16


def test_schema_table_and_page(watched):
    if watched is None:
        return
    done, found, page = watched
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/threads.json").read_text()))
    assert "cache lines that two or more threads change" in done.err and "lock waits" in done.err
    assert page.count('class="b"') == 2 * 64 and not re.search(r'(src|href)="http', page)


@pytest.mark.parametrize("way, status", [("main-returns", 6), ("exit-in-thread", 3), ("crash", 139)])
def test_output_and_status_stay_the_programs_own(program, tmp_path, way, status):
    """The table goes to stderr, and is there whoever ends the program."""
    alone = run([program("ends"), way])
    done = mortise("--watch", "--json", tmp_path / "found.json", "--", program("ends"), way)
    if "not watching" in done.err:
        return
    assert (done.out, done.status) == (alone.out, status) and "address space and locks" in done.err, done.err
    jsonschema.validate(json.loads((tmp_path / "found.json").read_text()), json.loads((ROOT / "docs/schemas/threads.json").read_text()))


MIDDLE = """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static struct { long line[4]; } before __attribute__((aligned(64)));
static long seconds;
static long counters[4];
static void* work(void* own) {
  volatile long* const counter = own;
  struct timespec now;
  const time_t end = (clock_gettime(CLOCK_MONOTONIC, &now), now.tv_sec) + seconds;
  do for (int i = 0; i < 100000; ++i) ++*counter;
  while (clock_gettime(CLOCK_MONOTONIC, &now), now.tv_sec < end);
  return 0;
}
int main(int count, char** values) {
  seconds = count > 1 ? atol(values[1]) / 1000 : 3;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], 0, work, &counters[i + 1]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  return (int)before.line[0];
}
"""


def test_a_variable_in_the_middle_of_a_line_is_named(tmp_path):
    """The variable, not what lies as far behind it as it lies behind the line's start."""
    (tmp_path / "middle.c").write_text(MIDDLE)
    subprocess.run(["cc", "-g", "-O0", "-pthread", tmp_path / "middle.c", "-o", tmp_path / "middle"], check=True)
    _, found = watched_long_enough(tmp_path, 1, tmp_path / "middle")
    if found is None:
        return
    assert [line["global"]["symbol"] for line in found["lines"]] == ["counters"]
    assert found["lines"][0]["writers"][0]["first_byte"] > 0


ALLOCATING = """
#include <cstdlib>
#include <ctime>
#include <thread>
namespace deep { alignas(64) static volatile long counters[8]; }
static thread_local void* kept[2000];
int main(int count, char** values) {
  const long milliseconds = count > 1 ? atol(values[1]) : 3000;
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
  };
  const auto work = [=](unsigned i) {
    const long start = now();
    unsigned seed = i;
    for (long past = 0; past < milliseconds / 2; past = now() - start)
      for (int n = 0; n < 10000; ++n) {
        void*& one = kept[rand_r(&seed) % 2000];
        free(one);
        one = malloc(16 + n % 256);
      }
    for (void* one : kept) free(one);
    for (long past = 0; past < milliseconds; past = now() - start)
      for (int n = 0; n < 100000; ++n) deep::counters[i] = deep::counters[i] + 1;
  };
  std::thread first(work, 0), second(work, 1);
  first.join(), second.join();
}
"""


def test_what_watching_itself_writes_is_not_watched(tmp_path):
    """It notes each allocation of all threads in one table, whose pages would take all places: then nothing else would be seen."""
    (tmp_path / "allocating.cpp").write_text(ALLOCATING)
    subprocess.run(["c++", "-std=c++20", "-g", "-O1", "-pthread", tmp_path / "allocating.cpp", "-o", tmp_path / "allocating"], check=True)
    _, found = watched_long_enough(tmp_path, 1, tmp_path / "allocating", rounds=4 * ROUNDS_ENOUGH)  # half of the time it allocates
    if found is None:
        return
    assert [line["global"]["symbol"] for line in found["lines"] if line["global"]] == ["deep::counters"], found


def test_findings_that_are_not_taken_are_told_of(program, isolated):
    done = isolated([program("ends"), "main-returns"], env={"MORTISE_THREADS_WATCH": "/dev/full"})
    if any("not watching" in line for line in done.said):
        return
    assert done.said == ["mortise threads: cannot write all of the findings to /dev/full: is its disk full?"]


@pytest.mark.parametrize("option", ("--json", "--html"))
def test_a_report_on_a_full_disk(program, option):
    done = mortise("--watch", option, "/dev/full", "--", program("ends"), "exit-in-thread")
    if "not watching" in done.err:
        return
    assert done.status == 2 and "mortise: cannot write the report '/dev/full': No space left on device" in done.err


def test_threads_that_end_leave_no_descriptors(program, isolated, tmp_path):
    """Two each, until the program could open no file any more. Main's own may come while it counts."""
    done = isolated([program("comers")], env={"MORTISE_THREADS_WATCH": str(tmp_path / "found.json")})
    assert done.status == 0 and int(done.out) <= 2, done


@pytest.mark.parametrize("way", ["unmapped", "protected"])
def test_pages_that_threads_fought_over_go(program, isolated, tmp_path, way):
    """The watcher read what nobody may touch any more, and the program ended by it."""
    done = isolated([program("hot_pages_go"), way], env={"MORTISE_THREADS_WATCH": str(tmp_path / "found.json")})
    assert (done.status, done.out) == (0, "done\n"), done.err


def test_reports_without_watching_are_refused(program, tmp_path):
    done = mortise("--json", tmp_path / "x.json", "--", program("planted"))
    assert done.status == 2 and "add --watch" in done.err
