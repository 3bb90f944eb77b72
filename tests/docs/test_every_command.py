"""Should the documentation show a command that nothing ever runs, the first to find out that it fails would be a reader."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from docs import test_built_programs, test_command_lines, test_console

from support.allocators import BUILD, ROOT, environment

PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "tests/programs/README.md")),
         *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\S*)\n(.*?)^```", re.M | re.S)
SHELL = {"sh", "console"}
SPAN = re.compile(r"`([^`]+)`")
INLINE = re.compile(r"(?:(?:MORTISE|PYTHONPATH|LD_PRELOAD|CASE)\w*=\S+ )*(?:make [\w-]+(?: && .*)?|cmake --.+|ninja .+|pip install .+|cargo add .+|ctest .+|"
                    r"pytest .+|python .+|go tool .+|PROG|(?:build|bench|cli)/\S+\.\w+ .+|build/(?:bin|tests|bench-bin|venv)/\S+ .+|\./mortise-\w+ .+)")
COMMENT = re.compile(r"\s+#|\s{4,}")  # what explains a line stands behind it

# Run here as they stand, where a reader stands; of what takes minutes, less: (pattern, what takes less).
HERE = [
    (r"LD_PRELOAD=\$PWD/build/lib/libmortise-hslab\.so \./server", {}),
    (r'MORTISE_CONF="\S+" LD_PRELOAD=libmortise-hslab\.so \./server', {}),
    (r"MORTISE_CONF=affinity_mode=chain LD_PRELOAD=\S+ \./prog", {}),
    (r"LD_PRELOAD=build/lib/libmortise-hslab_annotated\.so valgrind .* \./program", {}),
    (r"MORTISE_MODEL_REPLAY=.* build/tests/model/\S+ --gtest_filter=\S+", {}),
    (r"parallel .* mortise cell plan\.json \{\} -o out ::: .*", {"seq 0 19": "seq 0 1"}),
    (r"build/venv/bin/python -m pytest tests/programs.*", {"/path/to/any.so": f"{BUILD}/lib/libmortise-tlsf.so", "$": " --collect-only -q"}),
    (r"PYTHONPATH=tests build/venv/bin/python -m programs\.soak --seconds \d+ .*",
     {r"--seconds \d+": "--seconds 3", "program NAME": "program nginx", r"allocator NAME \.\.\.": "allocator hslab"}),
    (r"PYTHONPATH=tests build/venv/bin/python -m programs\.idle", {"$": " --program lua"}),
    (r"build/bin/mortise layers --markdown > docs/catalogue\.md", {"build/bin/": "", "docs/": ""}),
    (r"(MORTISE_TEST_ALL=1 )?pytest tests/\S+\.py", {"pytest": "build/venv/bin/python -m pytest", "$": " --collect-only -q"}),
    (r"g\+\+ -std=c\+\+20 -O2 -Iinclude examples/\w+\.cpp -o \w+ && \./\w+", {}),
    (r"mortise run --alloc hslab_hardened -- \./prog 2>&1 \| tee log", {}),
    (r"MORTISE_CONF=profile=heap\.%p LD_PRELOAD=build/lib/libmortise-hslab_profiled\.so PROG", {"PROG": "./prog"}),
]
# Run elsewhere: the test that does, and what in it shows that it does.
ELSEWHERE = [
    (r"cc server\.c .*pkg-config.*|export PKG_CONFIG_PATH=.*", "packages/test_install.py", "PKG_CONFIG_LINES"),
    (r"cc -I\. tests/build/in_c\.c libarena\.a libmine\.a .*", "build/test_build.py", '"tests/build/in_c.c"'),
    (r"musl-gcc -static program\.c libmine\.a", "platforms/test_musl.py", '"-static"'),
    (r"cmake --preset musl", "platforms/test_musl.py", "musl"),
    (r"cmake --preset aarch64.*", "platforms/test_aarch64.py", "aarch64"),
    (r"cmake --preset release -DMORTISE_ANNOTATE=ON && ninja .*", "checkers/test_valgrind.py", "libmortise-hslab_annotated.so"),
    (r"cmake --install.*", "packages/test_install.py", "installed"),
    (r"go tool pprof -http=: leaky\.pb\.gz", "life/test_profile.py", '"pprof", "-top"'),
    (r"pip install \.", "packages/test_wheel.py", "pip"),
    (r"cargo add mortise --path \.\./mortise", "packages/test_rust.py", "the_documented_line"),
    (r"sbatch --array=0-19 .*", "docs/test_command_lines.py", "slurm"),  # what it wraps; no cluster is to be had
    (r"make deb && apt install .*", "packages/test_debian_whole.py", "apt-get install -y -q --no-install-recommends ./libmortise0_*.deb"),
    (r"(CASE_BUDGET=\S+ )?cli/cases/run\.sh \w+", "cli/test_cases.py", "run.sh"),
    (r"cd build/tests/count|(\./|build/tests/)\S+.*", "docs/test_built_programs.py", "test_it_runs"),
    (r"ninja -C build bench_heaps && build/bench-bin/heaps", "heaps/many.cpp", "TakeWhatTheyTouch"),
    (r"ctest -R count", "count/CMakeLists.txt", "add_test"),
]
# Measurements of minutes to hours: their arguments are read, and what they start is there.
MEASURED = [
    r"(?:\S*python )?(bench/\S+\.py).*",
    r"build/venv/bin/python -m pytest -s (tests/affinity) -k two_thirds",
    r"build/bench-bin/(pair) .*",
]


def documented():
    """(page, command) of each line of a shell block, and of each such thing in the text."""
    for page in PAGES:
        text = page.read_text()
        for language, block in FENCE.findall(text):
            for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines() if language in SHELL else []:
                yield page, COMMENT.split(line.removeprefix("$ "))[0]
        for span in SPAN.findall(FENCE.sub("", text)):
            if INLINE.fullmatch(command := " ".join(span.split())):
                yield page, command
    for manual in sorted((ROOT / "packaging/man").glob("*.[17]")):  # they show what the front page shows
        for block in re.findall(r"^\.nf\n(.*?)^\.fi", manual.read_text(), re.M | re.S):
            yield from ((PAGES[0], line.replace("\\-", "-")) for line in block.splitlines() if r"\fI" not in line)


COMMANDS = sorted({(page.stem, command) for page, command in documented()})


def others():
    """What the other files of this folder run, by the name of the test: page and command."""
    for each in [*test_command_lines.LINES, *test_built_programs.LINES]:
        yield re.sub(r"\s+", " ", COMMENT.split(each.id)[0])
    for each in test_console.commands():
        yield from (f"{each.id.rsplit('-', 1)[0]}: {line[:90]}" for line in each.values[0].splitlines())


def way_of(page, command):
    """How a command is run: 'here', 'elsewhere', 'make', 'measured', another file of this folder, or not at all."""
    if any(re.fullmatch(pattern, command) for pattern, _ in HERE):
        return "here"
    if re.fullmatch(r"make [\w-]+", command):
        return "make"
    command = re.sub(r"\s+", " ", command)
    name = f"{page}: {re.sub(r'^(?:[A-Z_]+=[^ ]+ )*(?:build/bin/)?(?=mortise )', '', command)[:90]}"
    if any(one.strip() in (name.strip(), f"{page}: {command[:90]}") for one in others()):
        return "folder"
    if any(re.fullmatch(pattern, command) for pattern in MEASURED):
        return "measured"
    if any(re.fullmatch(pattern, command) for pattern, _, _ in ELSEWHERE):
        return "elsewhere"
    return None


def test_each_block_says_what_it_is():
    bare = [f"{page.name}: {block[:60]!r}" for page in PAGES for language, block in FENCE.findall(page.read_text()) if not language]
    assert not bare, f"a block of commands is ```sh, of anything else ```text: {bare}"


def test_each_command_is_run_by_a_test():
    assert len(COMMANDS) > 80
    nobody = [f"{page}: {command}" for page, command in COMMANDS if not way_of(page, command)]
    assert not nobody, "commands that no test runs; add them to a list of this file:\n" + "\n".join(nobody)


@pytest.mark.parametrize("pattern, test, text", ELSEWHERE, ids=lambda value: value if "/" in str(value) else "")
def test_what_runs_elsewhere_does(pattern, test, text):
    assert text in (ROOT / "tests" / test).read_text()
    assert any(re.fullmatch(pattern, command) for _, command in COMMANDS), "no page shows such a command any more"


@pytest.mark.parametrize("goal", sorted({command.split()[1] for page, command in COMMANDS if way_of(page, command) == "make"}))
def test_what_make_is_asked_for_is_there(goal):
    done = subprocess.run(["make", "-n", goal], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for path in re.findall(r"(?<![\w/.-])(?:bench|packaging|cli|tests|examples)/[\w/.-]+\.(?:py|sh)\b", done.stdout):
        assert (ROOT / path).is_file(), path


def measured():
    """What measures, with all that the pages give it."""
    found = {}
    for command in (command for page, command in COMMANDS if way_of(page, command) == "measured"):
        script, = (match[1] for pattern in MEASURED if (match := re.fullmatch(pattern, command)))
        found.setdefault(script, set()).update(re.findall(r"(?<= )--[\w-]+|(?<= )(?:counts|locks)\b", command))
    return found


@pytest.mark.parametrize("script, options", sorted(measured().items()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_measures_can_be_started(script, options):
    if not script.endswith(".py"):
        assert (ROOT / script).exists() or (ROOT / f"bench/{script}.cpp").exists()
        return
    done = subprocess.run([sys.executable, ROOT / script, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [option for option in options if option not in done.stdout]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where a reader stands: the tree, a program under the names that the pages give it, and what earlier lines left."""
    folder = tmp_path_factory.mktemp("reader")
    for path in ROOT.iterdir():
        if path.name not in (".git", "CHANGELOG.md"):
            (folder / path.name).symlink_to(BUILD if path.name == "build" else path)
    subprocess.run(["cc", "-O1", "-g", "-pthread", ROOT / "tests/docs/prog.c", "-o", folder / "prog"], check=True)
    for name in ("server", "program"):
        shutil.copy(folder / "prog", folder / name)
    (folder / "hosts").write_text(":\n")  # to parallel: this machine
    tools = folder / "bin"
    tools.mkdir()
    (tools / "mortise").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/cli" "$@"\n')
    (tools / "mortise").chmod(0o755)
    env = environment(None) | {"PATH": f"{tools}:{os.environ['PATH']}", "MORTISE_HOME": str(BUILD), "HOME": str(folder),
                               "LD_LIBRARY_PATH": f"{BUILD}/lib"}
    before = ["mortise plan --cells 20 --rounds 1 --arms glibc,hslab -- ./prog", "mortise profile -o leaky.pb.gz -- ./prog"]
    for line in before:
        subprocess.run(["bash", "-ec", line], cwd=folder, env=env, check=True, capture_output=True)
    return folder, env


@pytest.mark.parametrize("command", sorted({command for page, command in COMMANDS if way_of(page, command) == "here"}), ids=lambda command: command[:90])
def test_it_runs_as_it_stands(command, place):
    folder, env = place
    for pattern, less in HERE:
        if re.fullmatch(pattern, command):
            for what, by in less.items():
                command = re.sub(what, lambda _, by=by: by, command, count=1)
            break
    done = subprocess.run(["bash", "-ec", command], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "cannot be preloaded" not in done.stderr, f"{command}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
