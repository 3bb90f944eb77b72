"""Should a command line in the documentation not be one, a reader would type it and be told so."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from support.allocators import BUILD, ROOT, environment, until_loaded

sys.path.insert(0, str(ROOT / "cli"))

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
LINE = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:build/bin/)?(mortise (?!\[).*)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def documented():
    """Each command line once, without the comment behind it, as (page, words)."""
    seen = set()
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
                if (found := LINE.match(line)) and "…" not in line:
                    text = re.split(r"\s+#|\s{4,}|[&;]", found[1])[0]
                    if (page, text) not in seen:
                        seen.add((page, text))
                        yield pytest.param(shlex.split(text), id=f"{page.stem}: {text[:90]}")


LINES = list(documented())
CONSOLE = ("limits", "heaps", "profile", "statistics")  # test_console.py runs their blocks whole
# What ends in seconds as it stands.
QUICK = [each for each in LINES if each.values[0][1] in ("doctor", "run", "list", "explain", "layers", "build", "threads", "stats")
         and not any(word in each.id for word in ("musl", "openmp", "watch", *CONSOLE))]
# The rest: measurements, which here are of one round, and what stands on what the line before it wrote.
LONG = [each for each in LINES if each not in QUICK and not any(each.id.startswith(f"{page}:") for page in CONSOLE)]
FEWER = {"compare": ["--rounds", "1", "--warmup", "0", "--budget", "20s"]}
UNDECIDED, FAILED_IF = 3, 4  # one round decides nothing

@pytest.mark.parametrize("words", LINES)
def test_its_options_are_known(words):
    import click
    import typer

    from mortise.main import gathered

    commands = typer.main.get_command(gathered()).commands
    assert words[1] in commands, f"there is no command {words[1]}"
    try:
        commands[words[1]].make_context(words[1], [re.sub(r"PID|\$!", "1", word) for word in words[2:]])
    except click.UsageError as wrong:
        pytest.fail(wrong.format_message(), pytrace=False)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """What a reader has: a program with threads, one with OpenMP, one in Java."""
    folder = tmp_path_factory.mktemp("programs")
    for name, flags in (("prog", ["-pthread"]), ("openmp-prog", ["-fopenmp"])):
        subprocess.run(["cc", "-O1", "-g", *flags, ROOT / f"tests/docs/{name}.c", "-o", folder / name], check=True)
    subprocess.run(["javac", "-d", folder, ROOT / "tests/docs/Main.java"], check=True)
    return folder


@pytest.fixture
def place(tmp_path, programs):
    """Where a reader stands: the programs of the examples are there, and a composition of one's own."""
    shutil.copytree(programs, tmp_path, dirs_exist_ok=True)
    for name in ("server", "churn"):
        shutil.copy(tmp_path / "prog", tmp_path / name)
    for name in ("my.toml", "mine.toml"):
        shutil.copy(ROOT / "examples/mine.toml", tmp_path / name)
    for name in ("examples", "cmake", "include", "abi"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture
def mortise(place):
    """The command line, in that place."""
    env = environment(None) | {"MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli"), "HOME": str(place)}

    def run(*words):
        return subprocess.run([sys.executable, "-m", "mortise", *words], cwd=place, env=env, capture_output=True, text=True, timeout=600)

    return run


@pytest.mark.parametrize("words", QUICK)
def test_it_does_what_it_says(words, mortise):
    if "./libmine.so" in words:
        assert mortise("build", "mine.toml", "-o", "libmine.so").returncode == 0
    sleeper = subprocess.Popen(["sleep", "300"], env=environment("hslab")) if "PID" in words else None
    try:
        if sleeper:
            until_loaded(sleeper)
        done = mortise(*(str(sleeper.pid) if word == "PID" else word for word in words[1:]))
    finally:
        if sleeper:
            sleeper.kill()
            sleeper.wait()
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or "-o" in words, "it says something"


def before(words):
    """The lines of the documentation that have to be typed first."""
    if any("./libmine.so" in word for word in words):
        return [["mortise", "build", "mine.toml", "-o", "libmine.so"]]
    needed = {"cell": ["plan"], "report": ["plan", "cell"]}.get(words[1], [])
    return [next(each.values[0] for each in LONG if each.values[0][1] == name) for name in needed]


@pytest.mark.parametrize("words", LONG)
def test_a_longer_one_does_too(words, mortise, place):
    for line in before(words):
        done = mortise(*line[1:])
        assert done.returncode == 0, done.stderr[-2000:]
    done = mortise(words[1], *FEWER.get(words[1], []), *words[2:])
    if "slurm" in words and not shutil.which("sbatch"):
        assert done.returncode == 3 and re.fullmatch("mortise: .*Slurm.*--cluster local.*\n", done.stderr), done.stderr
        return
    if "--watch" in words and "not watching" in done.stderr:
        assert "Linux 6.7 or newer" in done.stderr
        return
    allowed = {0, UNDECIDED} if words[1] == "compare" else {0, UNDECIDED, FAILED_IF} if "--fail-if" in words else {0}
    assert done.returncode in allowed, done.stdout[-1000:] + done.stderr[-2000:]
    assert done.stdout or "-o" in words, "it says something"
    for option in ("--html", "--json", "--graph", "--plan", "-o"):
        if option in words:
            assert (place / words[words.index(option) + 1]).exists()
