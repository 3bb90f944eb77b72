"""The command line over what was really built: a description that no longer matches its reader breaks here first."""

import json
import os
import re
import subprocess
import sys
import tempfile

import jsonschema
import pytest
from mortise import catalogue, conf, starting

from cli.conftest import ROOT
from support.allocators import NAMES, run
from cli.test_commands import schema

BUILD = ROOT / "build"


@pytest.fixture(autouse=True)
def the_build(home_in_force, monkeypatch):
    monkeypatch.setenv("MORTISE_HOME", str(BUILD))


def test_the_default_is_built(the_build):
    assert catalogue.allocators()[0].name == "hslab"


def test_descriptions_and_keys_keep_to_their_schemas(the_build):
    for path in sorted((BUILD / "share/mortise").glob("*.json")):
        document = json.loads(path.read_text())
        jsonschema.validate(document, schema(document["schema"].split(".")[1].split("/")[0]))


VALUES = (
    "0 1 2 -0 -1 -2 007 15 16 100 1024 1025 10000 10001 1000000 1000001 9999999999 10000000000 99999999999999999999 1.5 0x10 + - "
    "none exit json off auto abort report lock grow fail size site chain graph strict liberal parts chains never madvise soon "
    "1K 16T 1k 0K 1KB 90% 100% 101% 0% % 17179869184G 0-3 0-3+8;4-7 0-3;3 3-0 0; ;0 1023 1024 0-9999999999 0;1;2;3;4;5;6;7 0;1;2;3;4;5;6;7;8"
).split()
FOR_SOME = {"reserve_mb": "wfslab", "prefault": "wfslab", "on_exhausted": "wfslab", "refill_ahead": "wfslab",
            "profile": "hslab_profiled", "sample_bytes": "hslab_profiled"}  # fmt: skip


def reader_of(key: str) -> str:
    """An allocator that does something with the key; others pass it over whatever its value."""
    return "hslab+affinity" if key.startswith("affinity_") else FOR_SOME.get(key, "hslab")


@pytest.mark.parametrize("value", [*VALUES, "p" * 200, "p" * 201])
def test_what_is_no_value_for_the_library_is_none_here(the_build, value, tmp_path):
    """Were more refused, somebody could not use a setting; were less, the program would run without it."""
    known = {key: str(of["type"]) for key, of in conf.keys().items() if reader_of(key) in NAMES}
    passed_over = set()
    for name in {reader_of(key) for key in known}:
        every = ",".join(f"{key}={value}" for key in known if reader_of(key) == name)
        said = run(["/bin/true"], name, env={"MORTISE_CONF": every}, cwd=tmp_path).err
        passed_over |= set(re.findall(r"setting '(\w+)=[^']*' is ignored; it takes", said))
    assert {key for key, kind in known.items() if conf.lacks(key, kind, value) is not None} == passed_over


def test_memory_goes_back_when_the_manual_says(the_build, tmp_path):
    """Who reads of 100 ms and finds memory never go back looks for a leak."""
    said = re.search(r"100 in (\w+) and its like and in (\w+), -1 in the others", str(conf.keys()["purge_ms"]["default"]))
    for name in NAMES:
        line = run(["/bin/true"], name, env={"MORTISE_CONF": "verbose=1"}, cwd=tmp_path).err
        assert f" purge_ms={100 if name.startswith(said[1]) or name == said[2] else -1} " in line, line


@pytest.mark.parametrize("words", (["profile"], ["affinity"], ["latency", "--arms", "hslab"], ["compare", "--arms", "glibc,hslab"], ["threads", "--watch"]))
def test_no_folder_for_temporary_files_is_a_line(the_build, words, tmp_path, monkeypatch):
    """As where all of them are read-only, or full."""
    (tmp_path / "sitecustomize.py").write_text("import tempfile\ntempfile._candidate_tempdir_list = lambda: ['/proc/none', '/proc']\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TMPDIR", "/proc/none")
    done = subprocess.run([sys.executable, ROOT / "cli", *words, "--", "true"], capture_output=True, text=True, check=False)
    if words[0] == "latency" and os.access("/dev/shm", os.W_OK):
        assert "Traceback" not in done.stderr  # its records are in memory
        return
    line = "mortise: no folder for temporary files in ['/proc/none', '/proc']: expected one that can be written and has room; name it in TMPDIR\n"
    assert done.returncode == 2 and done.stderr.endswith(line) and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(("root", "named", "expected"), ((False, False, "own"), (False, True, "named"), (True, True, "named"), (True, False, "/run")))
def test_records_lie_where_nobody_else_can_put_a_folder_of_that_name(root, named, expected, tmp_path, monkeypatch):
    """A daemon may write them after the command's end, and would follow what another user had put into /tmp."""
    for name in ("own", "named"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(os, "access", lambda place, mode: True)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda suffix=None, prefix=None, dir=None: made.append(dir or tempfile.gettempdir()) or str(tmp_path / "x"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "named") if named else "")
    made: list[str] = []
    (tmp_path / "x").mkdir()
    with starting.records() as folder:
        assert (folder.parent if root else folder) == tmp_path / "x"
    assert made == [str(tmp_path / expected)] and not folder.exists()


@pytest.mark.parametrize("command", ("profile", "affinity"))
def test_a_program_that_goes_on_in_the_background_is_told_of(the_build, cli, command, tmp_path):
    """As a daemon does. What is found in it comes too late, and its user should learn what to change."""
    os.mkfifo(tmp_path / "until")
    code = f"import os; os.fork() and os._exit(0); os.closerange(0, 3); open('{tmp_path}/until').read()"
    done = cli(command, "--", "/usr/bin/python3", "-c", code)
    with open(tmp_path / "until", "w"):  # somebody reads: it has gone on
        pass
    said = re.fullmatch(r"mortise: '/usr/bin/python3'[^\n]+ it went on in the background \(process \d+\) instead of staying in the foreground[,;] [^\n]+\n", done.stderr)
    assert done.returncode == 3 and said, done.stderr


AS_NOBODY = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
CHILD = "child = os.fork(); child and os.waitpid(child, 0)"  # has no file that it may write to, and warns


@only_root
@pytest.mark.parametrize("words", (["profile", "--leaks"], ["affinity"]))
def test_what_was_found_in_a_daemon_that_gives_up_root_is_told(the_build, cli, words):
    work = "kept = [bytes(5000) for i in range(2000)]; raise SystemExit(7)"
    done = cli(*words, "--", "/usr/bin/python3", "-c", f"{AS_NOBODY}; {CHILD}; {work}")
    assert done.returncode == 7 and done.stderr.count("cannot write") == 1 and "is lost" not in done.stderr, done.stderr
    if words[0] == "profile":
        assert float(re.search(r"([0-9.]+) MiB asked for", done.stdout)[1]) >= 9.5, done.stdout
    else:
        assert done.stderr.count("process ") == 1, done.stderr


@only_root
@pytest.mark.parametrize("command", ("profile", "affinity"))
def test_a_daemon_that_can_write_nothing_at_its_end_is_told_of(the_build, cli, command, tmp_path):
    done = cli(command, "--", "/usr/bin/python3", "-c", f"import os; os.chroot('{tmp_path}'); {AS_NOBODY}")
    assert done.returncode == 3 and starting.LEFT_NOTHING in done.stderr, done.stderr


@only_root
def test_the_record_of_a_program_that_root_starts_is_for_nobody_else_to_read_or_to_find(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(tempfile, "tempdir", None)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]
    with starting.records() as folder:
        starting.make_record(f"{folder}/%p.heap")
        record = folder / f"{os.getpid()}.heap"
        for words in (f"ls {folder}", f"ls {folder.parent}", f"cat {record}", f"rm -f {record}", f"ln -s /etc/passwd {folder}/1.heap"):
            assert subprocess.run([*as_nobody, words], capture_output=True, check=False).returncode, words
        assert not starting.is_written(record)
        subprocess.run([*as_nobody, f"echo found > {record}"], check=True)
        assert record.read_text() == "found\n" and starting.is_written(record)


def test_every_allocator_is_listed_explained_found_and_runs(cli):
    for allocator in json.loads(cli("list", "--json").stdout)["allocators"]:
        name = allocator["name"]
        assert allocator["library"] == cli("path", name).stdout.strip()
        assert name in cli("explain", name).stdout
        done = cli("run", "--alloc", name, "--", "sh", "-c", "grep -o 'libmortise-.*so' /proc/$$/maps | sort -u")
        assert done.returncode == 0 and done.stdout == f"libmortise-{name}.so\n", (name, done)


def test_each_layer_says_on_what_a_request_may_count_from_there_down(cli):
    """The first is the whole's; a cache in front makes hits better than what is below, and the source blocks."""
    layers = json.loads(cli("explain", "--json", "hslab").stdout)["layers"]
    at = {layer["name"]: layer["progress"] for layer in layers}
    assert at["CoreCache"]["hit"] == "wait_free" and at["Slab"]["hit"] == "blocking" and at["MmapHeap"]["hit"] == "blocking"
    for name in NAMES:
        found = json.loads(cli("explain", "--json", name).stdout)
        assert found["layers"][0]["progress"] == found["progress"] and all("progress" in layer for layer in found["layers"]), name


def test_the_launcher_in_build_bin_runs_from_anywhere(tmp_path):
    import subprocess

    (tmp_path / "linked").symlink_to(BUILD / "bin/mortise")
    done = subprocess.run(
        [tmp_path / "linked", "--version"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and done.stdout.startswith("mortise ")


def test_hslab_serves_a_comparison(cli, tmp_path, churn):
    done = cli(
        "compare",
        "--arms",
        "glibc,hslab,hslab:purge_ms=1",
        "--rounds",
        "4",
        "--json",
        str(tmp_path / "out.json"),
        "--",
        str(churn),
        "5000",
        "2",
    )
    document = json.loads((tmp_path / "out.json").read_text())
    assert done.returncode == 3, "four rounds are too few for a verdict"
    assert {name: entry["served"] for name, entry in document["arms"].items()} == {
        "glibc": 1,
        "hslab": 1,
        "hslab:purge_ms=1": 1,
    }


def test_every_allocator_can_be_timed_call_by_call(cli, churn):
    names = [a["name"] for a in json.loads(cli("list", "--json").stdout)["allocators"]]
    done = cli("latency", "--full", "--json", "-", "--arms", ",".join(names), "--", str(churn), "20000", "2")
    document = json.loads(done.stdout)
    assert done.returncode == 0, {name: entry["failure"] for name, entry in document["arms"].items()}
    for name, entry in document["arms"].items():
        assert entry["served_by"][0].endswith(f"libmortise-{name}.so") and entry["kinds"]["malloc"]["timed"] >= 20000
