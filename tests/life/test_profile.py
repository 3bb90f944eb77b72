"""Should the heap profile miss a leak, or blame the wrong place, it would send its reader the wrong way."""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from support.allocators import BUILD, CARDS, ROOT, environment, library, program, run

sys.path.insert(0, str(ROOT / "cli"))
from mortise import heap_profile  # noqa: E402
from mortise.errors import WrongUse  # noqa: E402

PLANTED = {"leak_small": 6_000_000, "leak_objects": 8_000_000, "leak_large": 16_000_000, "leak_by_growing": 6_000_000,
           "leak_in_thread": 9_000_000}
CHURNED = 400_000 * 1_500


def mortise(*words, **more):
    env = {**environment(None), "MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli"), "COLUMNS": "200"}
    return subprocess.run([sys.executable, "-m", "mortise", "profile", *map(str, words)], env=env, capture_output=True,
                          text=True, timeout=600, **more)


def by_function(profile, what="inuse_space"):
    """Bytes of the stacks that each planted function is in."""
    found = dict.fromkeys([*PLANTED, "churn"], 0)
    for stack, counts in profile.stacks.items():
        for name in found:
            if any(frame.function.split("(")[0] == name for frame in stack):
                found[name] += getattr(counts, what)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A sampled and an exact profile of the program with planted leaks."""
    folder = tmp_path_factory.mktemp("profiles")
    for name, words in (("sampled", ["--sample", "64K"]), ("exact", ["--leaks"])):
        done = mortise("-o", folder / f"{name}.pb.gz", "--html", folder / f"{name}.html", *words, "--", program("life", "planted"))
        assert done.returncode == 0, done.stderr
        (folder / f"{name}.txt").write_text(done.stdout)
    return folder


def test_a_folder_for_temporary_files_may_have_commas_in_its_name(tmp_path, monkeypatch):
    (tmp_path / "a,b").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a,b"))
    done = mortise("--leaks", "--", program("life", "planted"))
    assert done.returncode == 0 and "leak_large" in done.stdout, done.stderr


def test_a_program_whose_name_is_no_text_is_profiled_and_its_places_are_named(tmp_path):
    named = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    shutil.copy(program("life", "planted"), named)
    done = mortise("--leaks", "-o", tmp_path / "out.pb.gz", "--", os.fsdecode(named))
    assert done.returncode == 0 and "leak_large" in done.stdout, done.stderr
    assert by_function(heap_profile.read_pprof(tmp_path / "out.pb.gz"))["leak_large"] == PLANTED["leak_large"]


def test_every_planted_leak_is_found_at_its_size(files):
    found = by_function(heap_profile.read_pprof(files / "exact.pb.gz"))
    assert found.pop("churn") == 0
    assert found == PLANTED


def test_samples_find_each_place_too(files):
    """At one sample in 64 KiB some 90 blocks and more of each place are: within a factor of three in all but one run of billions."""
    found = by_function(heap_profile.read_pprof(files / "sampled.pb.gz"))
    for name, size in PLANTED.items():
        assert size / 3 <= found[name] <= size * 3, (name, found)
    assert found["churn"] == 0, "all of it was freed, and no sample may outlive its block"
    asked = by_function(heap_profile.read_pprof(files / "sampled.pb.gz"), "alloc_space")["churn"]
    assert 0.9 * CHURNED <= asked <= 1.1 * CHURNED, "some 9000 samples of it"


def test_a_profile_says_the_same_when_it_is_read_again(tmp_path):
    """Estimates are no whole numbers, and the file holds nothing else: a count that changes looks like a block that was lost."""
    sizes = range(100_000, 800_000, 7_000)
    lines = [f"  1: {size} [ 1: {size}] @ {0x1000 + size:#x}" for size in sizes]
    written = heap_profile.parse("\n".join(["heap profile: 1: 1 [ 1: 1] @ heap_v2/524288", *lines]))
    heap_profile.write_pprof(written, tmp_path / "p.pb.gz")
    assert heap_profile.read_pprof(tmp_path / "p.pb.gz").stacks == written.stacks
    blocks = sum(heap_profile.scale(1, size, 524_288)[0] for size in sizes)
    assert written.total().inuse_objects == round(blocks), "the rounding of many stacks does not add up"


@pytest.mark.parametrize("sample", ("abc", "0", "50%", "1025G", "9223372036854775807"))
def test_a_distance_between_samples_that_is_none(sample):
    done = mortise("--sample", sample, "--", "/bin/true")
    assert done.returncode == 2 and f"'{sample}' is no value of 'sample_bytes': expected bytes such as 512K" in done.stderr


def test_no_sample_outlives_its_block_at_any_rate(tmp_path):
    for sample_bytes in ("20K", "128K", "512K"):
        for run_number in range(4):
            out = tmp_path / f"{sample_bytes}-{run_number}.pb.gz"
            done = mortise("-o", out, "--sample", sample_bytes, "--", program("life", "planted"))
            assert done.returncode == 0, done.stderr
            found = by_function(heap_profile.read_pprof(out))
            assert found["churn"] == 0 and found["leak_large"] > 0, (sample_bytes, found)


def test_the_table_names_places_and_their_callers(files):
    said = (files / "exact.txt").read_text()
    for name in PLANTED:
        assert re.search(rf"(< |\s){name}", said), name
    assert re.search(r"^4[23]\.\d MiB in 370\d\d blocks", said, re.M)


def test_a_stripped_library_lends_no_name_to_what_it_hides(tmp_path):
    """Or what allocates would go by the name of whatever is exported before it."""
    (tmp_path / "m.c").write_text("#include <stdlib.h>\nint told(int n) { return n + 1; }\n"
                                  "__attribute__((noinline, noclone)) static void** hidden(void) { void** p = malloc(5 << 20); *p = p; return p; }\n"
                                  "__attribute__((noinline)) void* asks(int n) { void** p = hidden(); p[1] = p + n; return p; }\n")
    (tmp_path / "p.c").write_text("void* asks(int);\nvoid* kept;\nint main(void) { kept = asks(1); return 0; }\n")
    subprocess.run(["cc", "-O1", "-fno-toplevel-reorder", "-s", "-shared", "-fPIC", "-o", tmp_path / "libm1.so", tmp_path / "m.c"], check=True)
    subprocess.run(["cc", "-o", tmp_path / "p", tmp_path / "p.c", tmp_path / "libm1.so", f"-Wl,-rpath,{tmp_path}"], check=True)
    done = mortise("--leaks", "--", tmp_path / "p")
    assert re.search(r"5\.00 MiB .* libm1\.so\+0x[0-9a-f]+ < asks < main", done.stdout), done.stdout + done.stderr


def test_the_flame_graph_is_one_file_that_fetches_nothing(files):
    page = (files / "exact.html").read_text()
    assert all(name in page for name in PLANTED) and "main" in page
    assert not re.search(r"(src|href)=", page) and "http" not in page


def test_a_leak_is_found_below_more_stacks_and_blocks_than_the_tables_begin_with(tmp_path):
    done = mortise("-o", tmp_path / "crowded.pb.gz", "--leaks", "--", program("life", "crowded"))
    assert done.returncode == 0 and "missing" not in done.stderr, done.stderr
    profile = heap_profile.read_pprof(tmp_path / "crowded.pb.gz")
    of = {name: [(stack, counts) for stack, counts in profile.stacks.items() if any(frame.function == name for frame in stack)]
          for name in ("leak_crowd", "leak_last", "walk")}
    assert [counts.inuse_objects for _, counts in of["leak_crowd"]] == [1_700_000]
    assert [(counts.inuse_objects, counts.inuse_space) for _, counts in of["leak_last"]] == [(100, 100_000)]
    assert len(of["walk"]) == 20_000 and all(counts.inuse_objects == 0 for _, counts in of["walk"]), "each way has a stack of its own"


def test_samples_that_the_library_could_not_keep_are_told():
    text = "heap profile: 1: 10 [ 1: 10] @ heap_v2/1\n1: 10 [ 1: 10] @\n# 7 samples could not be recorded\n\nMAPPED_LIBRARIES:\n"
    assert heap_profile.parse(text).dropped == 7


def test_pprof_reads_it(files):
    done = subprocess.run(["go", "tool", "pprof", "-top", "-cum", "-sample_index=inuse_space", files / "exact.pb.gz"],
                          capture_output=True, text=True, env={**os.environ, "HOME": str(files)})
    assert done.returncode == 0, done.stderr
    assert re.search(r"15\.26MB.*leak_large", done.stdout), done.stdout


def test_what_was_written_is_read_back(files):
    profile = heap_profile.read_pprof(files / "exact.pb.gz")
    heap_profile.write_pprof(profile, files / "again.pb.gz")
    again = heap_profile.read_pprof(files / "again.pb.gz")
    assert again.stacks == profile.stacks and again.period == profile.period == 1


def test_growth_between_two_moments(tmp_path):
    process = subprocess.Popen([program("life", "planted"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment("hslab_profiled", MORTISE_SAMPLE_BYTES="1"), text=True)
    assert process.stdout.readline() == "ready\n"
    first = mortise("--pid", process.pid, "-o", tmp_path / "first.pb.gz")
    second = mortise("--pid", process.pid, "--base", tmp_path / "first.pb.gz", "-o", tmp_path / "growth.pb.gz")
    process.communicate("\n", timeout=600)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert by_function(heap_profile.read_pprof(tmp_path / "first.pb.gz")) == {**PLANTED, "churn": 0}
    assert not any(by_function(heap_profile.read_pprof(tmp_path / "growth.pb.gz")).values())
    longer = mortise("--leaks", "--base", tmp_path / "first.pb.gz", "--", program("life", "planted"))
    assert re.match(r"(0 B|-?\d.* B) in -?\d+ blocks grown", longer.stdout.splitlines()[1])


def test_an_allocator_is_asked_whether_it_keeps_a_profile_whatever_it_is_called(tmp_path):
    """A library that `mortise build` made with Sampled in it keeps one as well, under its user's name."""
    for name, kept in (("hslab_profiled", True), ("hslab", False)):
        mine = shutil.copy(library(name), tmp_path / "libmine.so")
        process = subprocess.Popen(["/usr/bin/python3", "-c", "x = bytearray(1 << 24); print('ready', flush=True); input()"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env={**environment(None), "LD_PRELOAD": str(mine)}, text=True)
        assert process.stdout.readline() == "ready\n"
        done = mortise("--pid", process.pid)
        process.communicate("\n", timeout=600)
        if kept:
            assert done.returncode == 0 and "blocks live" in done.stdout, done.stderr
        else:
            assert done.returncode == 3 and done.stderr.count("\n") == 1 and "keeps no heap profile: start it with" in done.stderr, done.stderr


def test_a_fork_keeps_its_parents_profile_and_may_write_its_own(tmp_path):
    script = "import os; b = [bytearray(1000000) for _ in range(20)]; pid = os.fork(); os.waitpid(pid, 0) if pid else None"
    run(["/usr/bin/python3", "-c", script], "hslab_profiled",
        env={"MORTISE_CONF": f"profile={tmp_path}/%p,sample_bytes=64K"}).ok()
    written = list(tmp_path.iterdir())
    assert written and all("heap_v2/65536" in path.read_text() for path in written)


def test_off_is_nothing_at_all():
    names = subprocess.run(["nm", "-C", library("hslab")], capture_output=True, text=True, check=True).stdout
    assert "HeapProfile" not in names and "Unwind" not in names
    assert "Sampled" not in {layer["name"] for layer in CARDS["hslab"]["layers"]}


def test_an_allocator_without_one_says_so():
    said = run(["/bin/true"], "hslab", env={"MORTISE_CONF": "profile=/tmp/never"}).ok().err
    assert "it takes an allocator that samples: hslab_profiled" in said


@pytest.mark.parametrize("words, complaint", [
    ([], "expected one of"),
    (["--pid", "4194305"], "there is no process"),
    (["--pid", str(os.getpid())], "keeps no heap profile"),
    (["--read", "/etc/hostname"], "is no pprof profile"),
    (["--read", "/nowhere"], "cannot read"),
    (["--", "/nowhere/prog"], "/nowhere/prog"),
    (["-o", "/nowhere/p", "--", "true"], "cannot write"),
])
def test_wrong_use_is_one_line(words, complaint):
    done = mortise(*words)
    assert done.returncode in (2, 3) and complaint in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_library_passes_over_a_distance_that_is_none():
    """Or the sum of two of them would be none, and nothing be sampled that was asked for."""
    done = run(["/bin/true"], "hslab_profiled", env={"MORTISE_CONF": "sample_bytes=9223372036854775807"}).ok()
    assert "sample_bytes" in done.err and "it takes bytes such as 512K, up to 1T" in done.err


def test_the_status_is_the_programs(tmp_path):
    seven = mortise("--", "/usr/bin/python3", "-c", "raise SystemExit(7)")
    assert seven.returncode == 7 and "live at the end" in seven.stdout
    killed = mortise("--", "sh", "-c", f"kill -{signal.SIGKILL} $$")
    assert killed.returncode == 128 + signal.SIGKILL and "wrote no profile" in killed.stderr
    assert mortise("--", "sh", "-c", "exit 0").returncode == 3, "dash leaves by _exit: there is nothing to show"


def test_a_program_of_which_nothing_was_sampled_says_so():
    """No sample is no sign that nothing is held. At one in 1 TiB, of the 2 MB that it asks for one is in one run of 500 000."""
    none = mortise("--sample", "1T", "--", "/usr/bin/python3", "-c", "")
    assert none.returncode == 0 and none.stderr.startswith("mortise: nothing was sampled: ") and none.stderr.count("\n") == 1
    assert "nothing was sampled" not in mortise("--leaks", "--", "/usr/bin/python3", "-c", "").stderr
    assert mortise("--leaks", "--", "/bin/true").stderr == "", "which asks for nothing: --leaks is no advice to who said it"


def test_the_text_that_the_library_writes_is_read_as_well(files, tmp_path):
    settings = {"MORTISE_PROFILE": f"{tmp_path}/%p", "MORTISE_SAMPLE_BYTES": "1"}
    run([program("life", "planted")], "hslab_profiled", env=settings).ok()
    text, = tmp_path.iterdir()
    assert mortise("--read", text).stdout.splitlines()[0] == mortise("--read", files / "exact.pb.gz").stdout.splitlines()[0]
    assert mortise("--read", files / "exact.pb.gz", "--base", text).stdout.startswith("0 B in 0 blocks grown, ")
    text.write_text("heap profile: of another kind")
    assert f"'{text}' is no heap profile" in mortise("--read", text).stderr


def test_what_was_found_is_shown_though_no_file_can_be_written():
    full = mortise("-o", "/dev/full", "--leaks", "--", program("life", "planted"))
    assert full.returncode == 2 and "leak_large" in full.stdout and "cannot write the profile '/dev/full': No space" in full.stderr


def test_a_broken_profile_is_refused(tmp_path):
    broken = tmp_path / "broken.pb.gz"
    broken.write_bytes(gzip.compress(b"\x0a\xff"))
    assert "is no pprof profile" in mortise("--read", broken).stderr


def damaged(data):
    """Cut off after each byte; with each bit of it turned over; without each byte."""
    yield from (data[:end] for end in range(len(data)))
    yield from (data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8))
    yield from (data[:at] + data[at + 1 :] for at in range(len(data)))


TEXT = b"heap profile: 1: 64 [1: 64] @ heap_v2/1\n1: 64 [1: 64] @ 0x10 0x20\nMAPPED_LIBRARIES:\n00-40 r-xp 00 00:00 0 /none\n"


@pytest.mark.parametrize("kind", ("text", "pprof", "packed"))
def test_a_profile_with_any_byte_damaged_is_read_or_refused(tmp_path, kind):
    """Copied from a disk that was full, or cut off by a pipe: one line, no stack trace."""
    path = tmp_path / "profile"
    heap_profile.write_pprof(heap_profile.parse(TEXT.decode()), path)
    whole = {"text": TEXT, "packed": path.read_bytes(), "pprof": gzip.decompress(path.read_bytes())}[kind]
    for data in damaged(whole):
        path.write_bytes(data)
        try:
            heap_profile.read(path)
        except WrongUse as refused:
            assert str(path) in str(refused)
