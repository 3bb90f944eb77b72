"""Should a command line in the documentation not be one, a reader would type it and be told so."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from support.allocators import BUILD, ROOT, environment

sys.path.insert(0, str(ROOT / "cli"))

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
LINE = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:build/bin/)?(mortise (?!\[).*)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def documented():
    """Each command line once, without the comment behind it, as (page, words)."""
    seen = set()
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if (found := LINE.match(line)) and "…" not in line:
                    text = re.split(r"\s+#|\s{4,}|[&;]", found[1])[0]
                    if (page, text) not in seen:
                        seen.add((page, text))
                        yield pytest.param(shlex.split(text), id=f"{page.stem}: {text[:90]}")


LINES = list(documented())
CONSOLE = ("limits", "heaps", "profile", "statistics")  # test_console.py runs their blocks whole
# What ends in seconds. The others measure for minutes, or want a server, a cluster or another compiler; other tests run the like.
QUICK = [each for each in LINES if each.values[0][1] in ("doctor", "run", "list", "explain", "layers", "build", "threads", "stats")
         and not any(word in each.id for word in ("musl", "openmp", "watch", *CONSOLE))]


@pytest.mark.parametrize("words", LINES)
def test_its_options_are_known(words):
    import click
    import typer

    from mortise.main import app

    commands = typer.main.get_command(app).commands
    assert words[1] in commands, f"there is no command {words[1]}"
    try:
        commands[words[1]].make_context(words[1], [re.sub(r"PID|\$!", "1", word) for word in words[2:]])
    except click.UsageError as wrong:
        pytest.fail(wrong.format_message(), pytrace=False)


@pytest.fixture
def place(tmp_path):
    """Where a reader stands: the programs of the examples are there, and a composition of one's own."""
    for name in ("server", "prog"):
        shutil.copy("/bin/echo", tmp_path / name)
    for name in ("my.toml", "mine.toml"):
        shutil.copy(ROOT / "examples/mine.toml", tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("words", QUICK)
def test_it_does_what_it_says(words, place):
    env = environment(None) | {"MORTISE_HOME": str(BUILD), "PYTHONPATH": str(ROOT / "cli"), "HOME": str(place)}
    mortise = [sys.executable, "-m", "mortise"]
    if "./libmine.so" in words:
        subprocess.run([*mortise, "build", "mine.toml", "-o", "libmine.so"], cwd=place, env=env, check=True, capture_output=True, timeout=300)
    sleeper = subprocess.Popen(["sleep", "300"], env=environment("hslab")) if "PID" in words else None
    try:
        words = [str(sleeper.pid) if word == "PID" else word for word in words[1:]]
        done = subprocess.run([*mortise, *words], cwd=place, env=env, capture_output=True, text=True, timeout=300)
    finally:
        if sleeper:
            sleeper.kill()
            sleeper.wait()
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or "-o" in words or words[-1] == "./prog", "it says something"
