"""Should statistics be wrong, or unreadable where a program misbehaves, its memory would stay a riddle."""

import json
import os
import re
import subprocess
import sys

import jsonschema
import pytest

from support.allocators import BUILD, NAMES, ROOT, WAY_IDS, WAYS, environment, library, program, run, until_loaded

sys.path.insert(0, str(ROOT / "cli"))
MORTISE = [sys.executable, "-m", "mortise"]
GUARDED = ("hslabd", "wfslabs", "tlsfccsd", "hslab_hardened")
SMALL_LIVE, SMALL_BYTES, LARGE_LIVE, LARGE_BYTES = 5_000, 208, 2, 3 << 20


def schema(name):
    return json.loads((ROOT / f"docs/schemas/{name}.json").read_text())


def command_line(*words, **more):
    env = {**environment(None), "MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli"), "COLUMNS": "120"}
    return subprocess.run([*MORTISE, *map(str, words)], env=env, capture_output=True, text=True, timeout=600, **more)


class Holder:
    """The program that waits, and what its allocator said from within."""

    def __init__(self, name, rseq=True, **env):
        self.process = subprocess.Popen([program("life", "holder")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment(name, rseq, MORTISE_PURGE_MS="-1", **env), text=True)

    def __enter__(self):
        self.said = json.loads(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.communicate("\n", timeout=600)


TWO_NODES = {"MORTISE_NODES": "0;1"}


@pytest.mark.parametrize("name, rseq, env", [(*way, {}) for way in WAYS] + [("hslab", True, TWO_NODES), ("hslab", False, TWO_NODES)],
                         ids=[*WAY_IDS, "hslab-nodes", "hslab-nodes-fallback"])
def test_outside_reads_what_inside_says(name, rseq, env):
    with Holder(name, rseq, **env) as holder:
        done = command_line("stats", holder.process.pid, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema("process"))
    jsonschema.validate(holder.said, schema("stats"))
    outside, = document["libraries"]
    assert outside.pop("library").endswith(f"libmortise-{name}.so")
    inside = holder.said
    assert abs(outside.pop("resident_bytes") - inside.pop("resident_bytes")) <= 64 << 10  # pages first touched since
    assert outside == inside


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_exact(name):
    with Holder(name) as holder:
        said = holder.said
    exact = SMALL_LIVE * 200 + LARGE_LIVE * LARGE_BYTES
    assert exact <= said["live_bytes"] <= exact * 1.2 + (1 << 20)
    assert exact <= said["resident_bytes"] <= said["mapped_bytes"]  # the rest of a block may never have been touched
    assert said["window_bytes"] >= said["mapped_bytes"] > 0


@pytest.mark.parametrize("name", ["hslab", "hslab_profiled"])  # guards make blocks of other sizes than were asked for
def test_size_classes_and_caches_add_up(name):
    with Holder(name) as holder:
        said = holder.said
    classes = {k["block_bytes"]: k for k in said["classes"]}
    # libc holds blocks of this size too, and a sampled block (hslab_profiled) starts on a page, in another class.
    assert SMALL_LIVE - 20 <= classes[SMALL_BYTES]["live_blocks"] <= SMALL_LIVE + 20
    assert said["large_blocks"] == LARGE_LIVE and said["large_bytes"] == LARGE_LIVE * LARGE_BYTES
    assert said["live_bytes"] == sum(k["live_blocks"] * k["block_bytes"] for k in said["classes"]) + said["large_bytes"]
    assert sum(c["blocks"] for c in said["caches"]) == sum(k["cached_blocks"] for k in said["classes"])


def test_the_table_names_sums_classes_and_caches():
    with Holder("hslab") as holder:
        done = command_line("stats", holder.process.pid)
    assert done.returncode == 0
    for part in ("mapped", "resident", "purged", "fragmentation", "size class", "cache of core"):
        assert part in done.stdout
    assert re.search(rf"^ +{SMALL_BYTES} +50\d\d ", done.stdout, re.M)


def test_the_program_goes_on_undisturbed_while_it_is_read():
    """A reader that needed a signal or a stop would end a sleep early."""
    sleeper = subprocess.Popen(["sleep", "1000"], env=environment("hslab"))
    try:
        until_loaded(sleeper)
        for _ in range(3):
            assert command_line("stats", sleeper.pid).returncode == 0
        status = open(f"/proc/{sleeper.pid}/status").read()
        assert re.search(r"State:\s+S", status) and re.search(r"TracerPid:\s+0", status)
        assert re.search(r"nonvoluntary_ctxt_switches", status) and sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("rounds", [5])
def test_a_busy_heap_is_read_too(rounds):
    busy = subprocess.Popen([program("life", "threads"), "churn"], env=environment("hslab"), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    try:
        until_loaded(busy)
        for _ in range(rounds):
            done = command_line("stats", busy.pid, "--json")
            if busy.poll() is not None:
                break
            assert done.returncode == 0, done.stderr
            jsonschema.validate(json.loads(done.stdout), schema("process"))
    finally:
        busy.kill()
        busy.communicate()


@pytest.mark.parametrize("name", [n for n in NAMES if n in GUARDED or os.environ.get("MORTISE_TEST_ALL")])
def test_who_asks_disturbs_nobody(name):
    """Guards keep blocks of other threads: whoever counts them may not take them for its own, from inside or outside."""
    with open(os.devnull, "w") as nowhere, subprocess.Popen(
            [program("life", "asked")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=nowhere,
            env=environment(name, MORTISE_REPORT_FILE="/dev/stdout"), text=True) as asked:
        assert asked.stdout.readline() == "busy\n"
        done = command_line("stats", asked.pid, "--json")
        assert done.returncode == 0, done.stderr
        jsonschema.validate(json.loads(done.stdout), schema("process"))
        said, _ = asked.communicate("", timeout=600)
    assert (said, asked.returncode) == ("whole\n", 0)


def test_one_whose_addresses_are_not_random_is_read_too():
    process = subprocess.Popen(["setarch", "-R", program("life", "holder")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=environment("hslab"), text=True)
    said = json.loads(process.stdout.readline())
    done = subprocess.run(["setarch", "-R", *MORTISE, "stats", str(process.pid), "--json"], capture_output=True,
                          text=True, env={**environment(None), "MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli")})
    process.communicate("\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["libraries"][0]["live_bytes"] == said["live_bytes"]


def test_a_library_is_found_whatever_it_is_called(tmp_path):
    """As `mortise build` makes them: the name is its user's."""
    (tmp_path / "libmine.so").write_bytes(library("hslab").read_bytes())
    process = subprocess.Popen([program("life", "holder")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment(None, preload=(tmp_path / "libmine.so",)), text=True)
    said = json.loads(process.stdout.readline())
    done = command_line("stats", process.pid, "--json")
    process.communicate("\n")
    assert done.returncode == 0, done.stderr
    found, = json.loads(done.stdout)["libraries"]
    assert found["live_bytes"] == said["live_bytes"] and found["library"] == str(tmp_path / "libmine.so")


@pytest.mark.parametrize("words, status, complaint", [
    (["stats", "4194305"], 2, "there is no process 4194305"),
    (["stats", "me"], 2, "PID"),
])
def test_wrong_use_is_one_line(words, status, complaint):
    done = command_line(*words)
    assert done.returncode == status and complaint in done.stderr and done.stderr.count("\n") == 1


def test_a_process_on_another_allocator_is_refused():
    done = command_line("stats", os.getpid())
    assert done.returncode == 3 and "does not run on a mortise allocator that can be read" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_without_the_right_it_says_what_would_help():
    with Holder("hslab") as holder:
        done = command_line("stats", holder.process.pid, user=65534)
    assert done.returncode == 3 and "no right" in done.stderr and "inspect=1" in done.stderr


@pytest.mark.parametrize("how", ["exit", "json"])
def test_statistics_at_the_end_go_where_they_are_told(how, tmp_path):
    done = run(["ls", "-d", "/"], "hslab", env={"MORTISE_CONF": f"stats={how},stats_file={tmp_path}/heap.%p"}).ok()
    assert done.err == ""
    file, = tmp_path.iterdir()
    assert re.fullmatch(r"heap\.\d+", file.name)
    if how == "json":
        jsonschema.validate(json.loads(file.read_text()), schema("stats"))
    else:
        assert "resident bytes" in file.read_text() and "class" in file.read_text()


@pytest.mark.parametrize("name, key", [("hslab", "stats=exit,stats_file"), ("hslab", "stats=json,stats_file"), ("hslab_profiled", "profile"),
                                       ("hslab+affinity", "affinity_dump")])
def test_the_child_of_a_fork_writes_a_file_of_its_own(name, key, tmp_path):
    script = '$| = 1; print "$$\n"; if (my $child = fork) { waitpid $child, 0 } else { print "$$\n" }'
    done = run(["perl", "-e", script], name, env={"MORTISE_CONF": f"{key}={tmp_path}/heap.%p"}).ok()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"heap.{pid}" for pid in done.out.split()), done.err
    assert all(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize("how, is_written", [("+>", False), (">>", True)])
def test_what_took_the_place_of_standard_error_is_written_to_if_it_is_a_log(how, is_written, tmp_path):
    """A daemon closes its streams; the first file that it opens may be its data."""
    script = "close STDERR; open my $file, $ARGV[0], $ARGV[1]; die if fileno $file != 2; syswrite $file, 'data'"
    for stats in ("exit", "json"):
        (tmp_path / "file").write_text("")
        run(["perl", "-e", script, how, tmp_path / "file"], "hslab", env={"MORTISE_STATS": stats}).ok()
        text = (tmp_path / "file").read_text()
        assert text.startswith("data") and (len(text) > 100) == is_written, text


@pytest.mark.parametrize("name, key", [("hslab", "stats_file"), ("hslab_profiled", "profile")])
def test_what_cannot_be_written_at_the_end_is_told_of(name, key, tmp_path):
    done = run(["/bin/true"], name, env={"MORTISE_CONF": f"stats=exit,{key}={tmp_path}/none/file"}).ok()
    assert f"mortise[{name}] warning: cannot write {tmp_path}/none/file" in done.err


@pytest.mark.parametrize("name, settings", [("hslab", "stats=exit,stats_file"), ("hslab", "stats=json,stats_file"),
                                            ("hslab_profiled", "profile")])
def test_a_file_with_no_room_is_told_of(name, settings):
    done = run(["/bin/true"], name, env={"MORTISE_CONF": f"{settings}=/dev/full"}).ok()
    assert done.err == f"mortise[{name}] warning: cannot write /dev/full: it did not take all of it; look at the room on its disk\n"


def test_a_file_that_takes_a_part_is_told_of(tmp_path):
    """The part is left there; of the rest one line is said."""
    text = f"trap '' XFSZ; ulimit -f 1; MORTISE_CONF=stats=json,stats_file={tmp_path}/file LD_PRELOAD={library('hslab')} exec bash -c :"
    done = run(["bash", "-c", text], None).ok()
    assert re.fullmatch(rf"mortise\[hslab\] warning: cannot write {tmp_path}/file: .*\n", done.err), done.err
    assert (tmp_path / "file").stat().st_size == 1024


def test_a_file_for_a_profile_that_the_allocator_cannot_take_is_left_alone(tmp_path):
    (tmp_path / "notes").write_text("precious")
    done = run(["ls", "-d", "/"], "hslab", env={"MORTISE_CONF": f"profile={tmp_path}/notes"}).ok()
    shown = f"{tmp_path}/notes"[:64]
    assert f"setting 'profile={shown}' is ignored; it takes an allocator that samples" in done.err
    assert (tmp_path / "notes").read_text() == "precious"


def test_json_at_the_end_goes_to_standard_error_by_default():
    jsonschema.validate(json.loads(run(["/bin/true"], "hslab", env={"MORTISE_CONF": "stats=json"}).ok().err),
                        schema("stats"))
