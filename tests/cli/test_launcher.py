"""The launcher's figures are what every verdict stands on: a wrong peak or status here makes every comparison wrong."""

import ctypes
import hashlib
import itertools
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mortise.arms import Arm
from mortise.errors import RunFailed
from mortise.launching import Launcher, Request, Service, read_series

from cli.conftest import ROOT, compile_c

MIB = 1 << 20


@pytest.fixture
def launch(churn):
    """Runs words and returns the outcome; the arm is whatever ships unless one is given."""

    def run(*words: str, arm: Arm | None = None, **options):
        return Launcher().run(Request([str(w) for w in words], arm or Arm("shipped", "shipped"), **options))

    return run


@pytest.mark.parametrize("memory", (False, True))
def test_a_large_spawner_does_not_show_in_the_peak(launch, memory):
    """The kernel folds the peak of whoever executes a program into the program's ru_maxrss: 500 MB for `true`."""
    ballast = bytearray(500 * MIB)
    ballast[:: os.sysconf("SC_PAGESIZE")] = b"x" * len(ballast[:: os.sysconf("SC_PAGESIZE")])
    assert launch("true", memory=memory).facts["peak_rss_bytes"] <= 20 * MIB
    direct = subprocess.Popen(["true"])
    _, _, usage = os.wait4(direct.pid, 0)
    direct.returncode = 0
    assert usage.ru_maxrss * 1024 > 400 * MIB, "the trap that the launcher is there for"


def test_the_bare_launcher_reports_the_bare_program(mortise_home):
    """Without the probe, which every arm carries alike, `true` is what `true` is."""
    command = [
        mortise_home / "libexec/mortise-launcher",
        "--result",
        "1",
        "--memory",
        "10",
        "--",
        "/bin/true",
        "true",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    peak = int(said.split('"peak_rss_bytes":')[1].split(",")[0])
    assert 0 < peak <= 8 * MIB


def test_the_peak_is_exact_at_the_exit_stop(launch, churn):
    bare = launch(churn, "0", "0", memory=True).facts
    touched = launch(churn, "0", "100", memory=True).facts
    assert bare["peak_source"] == touched["peak_source"] == "exit_stop"
    assert abs(touched["peak_rss_bytes"] - bare["peak_rss_bytes"] - 100 * MIB) <= MIB  # pages of libraries vary from run to run


def test_the_peak_is_what_the_program_knows_itself(launch):
    """Not only the difference of two runs, which a constant error would survive."""
    text = "x = bytearray(100 << 20); print(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
    outcome = launch("/usr/bin/python3", "-c", text, memory=True)
    assert abs(outcome.facts["peak_rss_bytes"] - int(outcome.stdout) * 1024) <= MIB


def test_sampling_sees_what_stays(launch):
    """The average is that of the samples over time; how long the program took to start, and with it the average, is the machine's."""
    text = "x = bytearray(100 << 20); import time; time.sleep(0.5)"
    outcome = launch("/usr/bin/python3", "-c", text, memory=True)
    largest = max(size for _, size in outcome.series)
    assert abs(largest - outcome.facts["peak_rss_bytes"]) < 0.02 * outcome.facts["peak_rss_bytes"]
    steps = [(there - here, (before + after) / 2) for (here, before), (there, after) in itertools.pairwise(outcome.series)]
    average = sum(seconds * size for seconds, size in steps) / sum(seconds for seconds, _ in steps)
    assert outcome.facts["avg_rss_bytes"] == pytest.approx(average, rel=0.01)


def test_a_larger_image_before_the_last_one_counts(launch):
    """VmHWM begins anew with every image: what a process held before it executed another program only the samples know."""
    text = "import os, time; x = bytearray(100 << 20); time.sleep(0.5); os.execvp('sleep', ['sleep', '0.1'])"
    facts = launch("/usr/bin/python3", "-c", text, memory=True).facts
    assert facts["processes"] == 1 and facts["peak_source"] == "samples" and facts["peak_rss_bytes"] > 100 * MIB


def test_who_watches_many_processes_looks_less_often(launch):
    """Three hundred processes make a sample a hundred times as dear: at every 10 ms it would cost some percent of the time."""
    few = launch("sh", "-c", "sleep 1", memory=True).facts
    many = launch("sh", "-c", "for i in $(seq 300); do sleep 9 & done; wait", memory=True).facts
    assert many["processes"] > 300 and many["samples"] > 5
    assert many["sampling_cost_s"] / many["wall_s"] <= 0.005 * 1.2
    assert many["samples"] / many["wall_s"] < 0.6 * few["samples"] / few["wall_s"]


def may_count() -> bool:
    """Asks the kernel for a counter of this process's own instructions in user mode."""
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    wanted = struct.pack("IIQQQQQ", 0, 64, 1, 0, 0, 0, 1 | 1 << 5 | 1 << 6).ljust(64, b"\0")
    descriptor = ctypes.CDLL(None).syscall(number, wanted, 0, -1, -1, 0)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def test_instructions_of_a_program_and_its_children_are_counted(launch, churn):
    """User-mode instructions hardly vary from run to run: twice the work is twice as many, in a child as well. Where nobody may count,
    nothing is said to have been counted.
    """
    if not may_count():
        assert launch(churn, "1000000", count=True).facts["instructions"] is None
        return
    one, two = (launch(churn, work, count=True).facts for work in ("1000000", "2000000"))
    assert two["instructions"] == pytest.approx(2 * one["instructions"], rel=0.02) and two["cycles"] > one["cycles"] > 0
    in_children = launch("sh", "-c", f"{churn} 1000000; {churn} 1000000", count=True).facts
    assert in_children["instructions"] == pytest.approx(two["instructions"], rel=0.05)


COUNTS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Reads its input, says how often it was started and how often main ran, and ends as told. */
static int started;
__attribute__((constructor)) static void start(void) { started++; }
int main(int count, char** values) {
  char text[64] = "nothing";
  if (fgets(text, sizeof text, stdin) == NULL) return 9;
  FILE* log = fopen(values[1], "a");
  fprintf(log, "%d %d %s\\n", started, getenv("MORTISE_PROBE_REPEAT") != NULL, text);
  fclose(log);
  printf("x");
  for (volatile int i = 0; i < 20000000; i++) {}
  if (count > 2 && values[2][0] == 'k') abort();
  return count > 2 ? atoi(values[2]) : 0;
}
"""


def test_main_repeats_in_copies_of_the_loaded_program(launch, tmp_path):
    """Each time from the same start, with the same input; figures are of one time, and the worst end is the end. Of twenty times the
    time would be twenty-fold: so much no neighbour does.
    """
    (tmp_path / "counts.c").write_text(COUNTS)
    program = compile_c(tmp_path / "counts.c", tmp_path / "counts")
    (tmp_path / "input").write_text("a line")
    log = tmp_path / "log"

    def run(*words, **more):
        log.write_text("")
        return launch(program, log, *words, stdin=tmp_path / "input", **more), log.read_text().splitlines()

    once, _ = run()
    many, said = run(repeat=20)
    assert said == ["1 0 a line"] * 20 and many.stdout == b"x" * 20 and len(many.probed) == 1
    assert 0.2 < many.facts["cpu_s"] / once.facts["cpu_s"] < 5 and many.facts["exit_status"] == 0
    assert many.facts["peak_rss_bytes"] == pytest.approx(once.facts["peak_rss_bytes"], abs=2 * MIB)
    assert run("3", repeat=4)[0].facts["exit_status"] == 3
    killed, said = run("k", repeat=4)
    assert killed.facts["exit_status"] == 128 + signal.SIGABRT and len(said) == 1


def test_time_runs_are_not_sampled(launch):
    facts = launch("true").facts
    assert facts["instructions"] is None and facts["cycles"] is None
    assert facts["samples"] == 0 and facts["peak_source"] == "rusage" and facts["avg_rss_bytes"] == 0


def test_statuses_and_signals(launch):
    assert launch("sh", "-c", "exit 9").facts["exit_status"] == 9
    assert launch("sh", "-c", "kill -SEGV $$").facts["exit_status"] == 128 + signal.SIGSEGV
    assert launch("sh", "-c", "kill -SEGV $$", memory=True).facts["exit_status"] == 128 + signal.SIGSEGV


def test_signals_reach_a_watched_program(launch):
    text = "trap 'echo caught; exit 3' USR1; kill -USR1 $$; sleep 10"
    outcome = launch("sh", "-c", text, memory=True)
    assert outcome.facts["exit_status"] == 3 and outcome.stdout == b"caught\n"


def test_children_count_and_those_left_behind_are_ended(launch, tmp_path):
    mark = tmp_path / "mark"
    outcome = launch("sh", "-c", f"(sleep 600 & echo $! > {mark}); setsid sleep 600 & sleep 0.1")
    assert outcome.facts["left_behind"] == 2
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()


@pytest.mark.parametrize("memory", (False, True))
def test_those_left_behind_by_what_was_left_behind_are_ended(launch, memory):
    """Each has a session of its own, and is this process's child only once its parent is gone."""
    outcome = launch("sh", "-c", "setsid sh -c 'setsid sleep 10 & sleep 10' & sleep 0.3", memory=memory)
    assert outcome.facts["left_behind"] == 3


def test_a_child_that_had_ended_was_not_left_behind(launch):
    outcome = launch("/usr/bin/python3", "-c", "import os\nif os.fork() == 0: os._exit(0)\nos.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)")
    assert outcome.facts["left_behind"] == 0


def test_the_peak_of_several_processes_is_their_sum(launch, tmp_path):
    """Both hold their memory at once: each waits for the other, whenever that was started."""
    (tmp_path / "one.py").write_text(
        "import os, sys, time\nx = bytearray(50 << 20)\nopen(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\ntime.sleep(0.5)\n"
    )
    a, b = (f"/usr/bin/python3 {tmp_path}/one.py {tmp_path}/{mine} {tmp_path}/{other}" for mine, other in ("ab", "ba"))
    outcome = launch("sh", "-c", f"{a} & {b} & wait", memory=True)
    assert outcome.facts["peak_rss_bytes"] > 100 * MIB and outcome.facts["peak_source"] == "samples"


def test_cpu_time_of_children_and_threads_counts(launch):
    spin = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    assert launch("sh", "-c", f"/usr/bin/python3 -c '{spin}'; exit 0").facts["cpu_s"] >= 0.2


@pytest.mark.parametrize("followed", ({}, {"count": True}, {"memory": True}), ids=str)
def test_cpu_time_of_a_worker_that_nobody_waits_for_counts(launch, followed):
    """As servers start them, by two forks: the kernel adds it to nobody's figure, so that such a program would take no time."""
    spin = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    twice = f"import os\nend = os.pipe()\nif os.fork() == 0:\n if os.fork() == 0: exec({spin!r})\n os._exit(0)\nos.wait()\nos.close(end[1])\nos.read(end[0], 1)"
    assert launch("/usr/bin/python3", "-c", twice, **followed).facts["cpu_s"] >= 0.2


def test_standard_input_starts_over_in_every_run(launch, tmp_path):
    (tmp_path / "input").write_text("some words\n")
    for _ in range(2):
        assert launch("cat", stdin=tmp_path / "input").stdout == b"some words\n"
    assert launch("cat").stdout == b""


def test_the_environment_is_the_users_plus_the_arm(launch, monkeypatch):
    monkeypatch.setenv("KEPT", "yes")
    outcome = launch(
        "sh", "-c", "echo $KEPT $NEW ${#MORTISE_PAD}", arm=Arm("a", "environment", env={"NEW": "it"}), padding=77
    )
    assert outcome.stdout == b"yes it 77\n"


def test_an_arm_may_preload_a_library_by_its_environment(launch, toy, monkeypatch):
    """Left out, two arms that differ in nothing but that are one, and a tie says nothing of the library."""
    monkeypatch.setenv("LD_PRELOAD", "/no/such/library.so")
    outcome = launch("true", arm=Arm("other", "environment", env={"LD_PRELOAD": str(toy)}))
    assert outcome.facts["malloc_from"] == [str(toy)] and "/no/such" not in outcome.stderr_tail
    assert launch("true", env={"LD_PRELOAD": str(toy)}).facts["malloc_from"] == [str(toy)]  # as a sweep sets it
    assert "/no/such" in launch("true").stderr_tail  # the user's own stays where none is set


def test_the_folder_of_a_run_is_the_programs_own(launch, churn, toy):
    """initdb wants an empty one; what another program makes of it must not cost the run its figures."""
    outcome = launch("sh", "-c", f"ls -A {{tmp}}; mkdir {{tmp}}/stdout {{tmp}}/probe; rm -rf {{tmp}}; {churn}", arm=Arm("toy", "ours", str(toy)))
    assert outcome.facts["exit_status"] == 0 and outcome.facts["served"] == 1 and len(outcome.stdout.split()) == 1
    service = Service(load="ls -A {tmp} && touch {tmp}/stderr && chmod 0 {tmp}")
    assert launch("sleep", "60", service=service).load_output == ""


def test_served_is_proven_by_where_malloc_comes_from(launch, toy, churn, static_program):
    ours = Arm("toy", "ours", str(toy))
    outcome = launch(churn, arm=ours)
    assert outcome.facts["served"] == 1 and outcome.facts["malloc_from"] == [str(toy)]
    assert launch(churn, arm=Arm("glibc", "glibc")).facts["served"] == 1
    assert launch(static_program, arm=ours).facts["served"] == 0
    # A program that gives its child another environment is served by half.
    half = launch(
        "sh",
        "-c",
        f"env -u LD_PRELOAD -u MORTISE_PAD LD_PRELOAD=$(echo $LD_PRELOAD | cut -d: -f2) {churn}; exit 0",
        arm=ours,
    )
    assert 0 < half.facts["served"] < 1


@pytest.mark.parametrize("followed", ("memory", "count"))
def test_who_clears_the_environment_is_found_where_a_run_is_followed(launch, toy, churn, followed):
    """The probe is loaded into the wrapper alone, and would say that all was served."""
    ours = Arm("toy", "ours", str(toy))
    facts = launch("sh", "-c", f"env -i {churn} 2000000 20; {churn} 10; exit 0", arm=ours, **{followed: True}).facts
    assert facts["malloc_from"] == [str(toy)] and facts["served"] < 0.5
    beyond = facts["unreached"]
    assert beyond["cpu_share"] > 0.5 and beyond["program"] == beyond["largest"] == str(churn) and beyond["peak_rss_bytes"] > 20 * MIB
    assert launch("sh", "-c", f"{churn} 2000; exit 0", arm=ours, **{followed: True}).facts["unreached"]["cpu_share"] == 0
    assert launch("env", "-i", churn, arm=ours).facts["unreached"] is None, "nobody looks while a run is timed"


def test_a_program_that_has_a_jump_of_its_own_to_malloc_is_served(launch, toy, tmp_path):
    """Not position-independent, as Debian's python3 is: everybody else sees the address of malloc in the program."""
    source = tmp_path / "fixed.c"
    source.write_text("#include <stdlib.h>\nint main(void) { void* (*volatile ask)(size_t) = malloc; free(ask(10)); return 0; }\n")
    fixed = compile_c(source, tmp_path / "fixed", "-fno-pie", "-no-pie")
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", fixed], capture_output=True, text=True, check=True).stdout
    assert re.search(r" 0*[1-9a-f][0-9a-f]* +0 FUNC +GLOBAL +DEFAULT +UND malloc", symbols), symbols
    for arm, library in ((Arm("toy", "ours", str(toy)), str(toy)), (Arm("glibc", "glibc"), "libc.so.6")):
        facts = launch(fixed, arm=arm).facts
        assert facts["served"] == 1 and facts["malloc_from"][0].endswith(library), facts


def test_what_the_image_holds_before_main(launch, churn):
    outcome = launch(churn, "0", "200", baseline=True)
    assert 0 < outcome.peak_before_main < 8 * MIB and outcome.stdout == b""


def test_a_program_that_cannot_be_executed(launch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    os.chmod(broken, 0o755)
    outcome = launch(broken)
    assert outcome.facts["exit_status"] == 127


def test_more_words_than_the_kernel_takes(launch):
    """With those of the launcher there are too many, where the user's own just fitted: a line, and no run."""
    with pytest.raises(RunFailed, match="could not be started: Argument list too long"):
        launch("true", *["x" * 100_000] * 100)


def test_a_run_that_never_ends_is_ended(launch, tmp_path):
    mark = tmp_path / "mark"
    for seconds in (0.5, 2.0, 8.0, 32.0):  # where the machine is so busy that the program has not begun by then, once more
        with pytest.raises(RunFailed, match="ran longer than"):
            launch("sh", "-c", f"echo $$ > {mark}; sleep 600", timeout_s=seconds)
        if mark.exists() and (pid := mark.read_text().strip()):
            break
    give_up = time.monotonic() + 600
    while Path(f"/proc/{pid}").exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


SERVER = """import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])  # who sees it may connect
while s.accept()[0].recv(1) != b"q":
    pass"""
TALK = "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('{{tmp}}/s'); s.send(b'{0}')\""


def test_a_server_is_awaited_used_and_ended(launch):
    service = Service(ready="test -S {tmp}/s", load=TALK.format("x") + " && echo done {pid}", stop=TALK.format("q"))
    outcome = launch("/usr/bin/python3", "-c", SERVER, "{tmp}/s", service=service)
    assert outcome.facts["exit_status"] == 0 and outcome.facts["load_status"] == 0
    assert outcome.load_output.startswith("done ") and outcome.facts["wall_s"] <= outcome.facts["life_s"]


def test_a_server_without_a_way_to_end_gets_a_signal(launch):
    service = Service(ready="test -S {tmp}/s", load="true")
    assert (
        launch("/usr/bin/python3", "-c", SERVER, "{tmp}/s", service=service).facts["exit_status"]
        == 128 + signal.SIGTERM
    )


def test_a_server_that_goes_on_is_not_waited_for_as_long_as_a_run_may_take(launch):
    service = Service(ready="test -S {tmp}/s", load="true", stop="true", farewell_s=0)
    with pytest.raises(RunFailed, match="'.*' went on for 0 s after 'true', which is to end it"):
        launch("/usr/bin/python3", "-c", SERVER, "{tmp}/s", service=service, timeout_s=20)


def test_a_server_that_dies_before_it_is_ready(launch):
    """It is not said to have been waited for, but how it ended and what it said last; of what says nothing on stderr, what it printed."""
    service = Service(ready="false", load="true")
    for script, said in (
        ("echo reading >&2; echo bad option >&2; exit 3", "ended with exit status 3 before it was ready: bad option"),
        ("echo port in use; kill -ABRT $$", "was ended by SIGABRT before it was ready: port in use"),
        ("exit 0", "ended with exit status 0 before it was ready"),
    ):
        with pytest.raises(RunFailed) as failed:
            launch("sh", "-c", script, service=service)
        assert str(failed.value).endswith(f"' {said}"), script


def test_a_server_that_is_never_ready(launch):
    with pytest.raises(RunFailed, match="was not ready after 0 s: 'false' never succeeded"):
        launch("sleep", "60", service=Service(ready="false", load="true", patience_s=0.1))


def test_what_a_client_says_of_its_failure_is_told(launch):
    """It may be misspelt, and its user would look for what is wrong with the server, after half a minute for each arm."""
    with pytest.raises(RunFailed, match="'no-such-client ping' cannot be run: .*no-such-client: not found"):
        launch("sleep", "60", service=Service(ready="no-such-client ping", load="true", patience_s=600))
    with pytest.raises(RunFailed, match="never succeeded: no port"):
        launch("sleep", "60", service=Service(ready="echo no port >&2; false", load="true", patience_s=0.1))
    outcome = launch("sleep", "60", service=Service(load="echo started; no-such-client"))
    assert outcome.facts["load_status"] == 127 and "no-such-client: not found" in outcome.load_output


def test_a_client_reads_nothing(launch, tmp_path):
    """The first run's took what was there, and all others' had nothing."""
    (tmp_path / "words").write_text("words")
    kept = os.dup(0)
    try:
        with (tmp_path / "words").open() as words:
            os.dup2(words.fileno(), 0)
        assert launch("sleep", "60", service=Service(load="cat; exit 1")).load_output == ""
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_a_client_that_hangs_is_told_of_and_not_the_server(launch):
    """Asked whether it is there by something that waits for ever, it was said to have run longer than an hour, after a minute."""
    with pytest.raises(RunFailed, match="was not ready after 0 s: 'sleep 600' never succeeded"):
        launch("sleep", "60", service=Service(ready="sleep 600", load="true", patience_s=0.1))
    with pytest.raises(RunFailed, match="'sleep 600', which is to end 'shipped', went on for 0 s itself"):
        launch("sleep", "60", service=Service(load="true", stop="sleep 600", stop_s=0.1))


@pytest.fixture
def small_disk(tmp_path):
    """A folder for temporary files that has two megabytes, for a command that is put behind it."""
    if subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("nobody may mount anything here")
    (tmp_path / "small").mkdir()
    mount = f"mount -t tmpfs -o size=2M none {tmp_path}/small && TMPDIR={tmp_path}/small exec \"$@\""
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]


@pytest.mark.parametrize("what", ("seq 1 1000000 2> /dev/null; true", "dd if=/dev/zero of={tmp}/large bs=1M count=5 2> /dev/null; true"))
def test_a_run_that_fills_the_disk_is_none(small_disk, what):
    """What is cut off is the same in every arm, and half a run would pass for one."""
    words = [sys.executable, ROOT / "cli", "compare", "--arms", "glibc,toy", "--rounds", "1", "--", "sh", "-c", what]
    done = subprocess.run([*small_disk, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and re.search("'glibc' left no room in '.*/small', where its output goes: name a folder", done.stdout), done.stdout + done.stderr


def test_output_larger_than_memory_is_not_read_into_it(launch, monkeypatch):
    """It is told from another by its digest; where a number is looked for in it, all of it is needed."""
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read as a whole"))
    one, other = (launch("seq", str(n), keep_output=False) for n in (100_000, 100_001))
    assert one.facts["stdout_sha256"] != other.facts["stdout_sha256"] and one.stdout == b""
    assert launch("seq", "3", keep_output=False).facts["stdout_sha256"] == hashlib.sha256(b"1\n2\n3\n").hexdigest()


def test_a_server_that_ends_while_it_is_loaded(launch):
    """Nothing is left to be stopped then, which is no error of its own."""
    outcome = launch("true", service=Service(load="while [ -e /proc/{pid} ] && ! grep -q 'State:.Z' /proc/{pid}/status; do sleep 0.01; done"))
    assert outcome.facts["exit_status"] == 0


def test_long_series_are_thinned_and_keep_their_peak(tmp_path):
    path = tmp_path / "series"
    path.write_text("".join(f"{i / 100} {1000 if i == 4567 else 1}\n" for i in range(10000)))
    series = read_series(path)
    assert len(series) <= 400 and max(size for _, size in series) == 1000
