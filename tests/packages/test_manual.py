"""The manual pages and the completion are what the command line is. If one failed, `man mortise-run` or the tabulator key would lie."""

import re
import shutil
import sys

import pytest

from packages.conftest import shell
from support.allocators import NAMES, ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import completion  # noqa: E402
import manual  # noqa: E402

PAGES = manual.pages()


def test_pages_and_scripts_are_of_today():
    for folder, made in (("man", PAGES), ("completion", completion.scripts())):
        kept = {path.name: path.read_text() for path in (ROOT / "packaging" / folder).iterdir()}
        stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
        assert not stale, f"{stale}: run 'make manual'"


def test_every_command_and_setting_has_its_place():
    assert {f"mortise-{name}.1" for name in completion.commands()} < PAGES.keys()
    assert all(rf"\fB{key}\fR" in PAGES["mortise.conf.7"] for key in completion.KEYS)
    assert set(completion.ALLOCATORS) == set(NAMES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed(name, tmp_path):
    (tmp_path / name).write_text(PAGES[name])
    said = shell("mandoc", "-T", "lint", "-W", "warning", tmp_path / name, cwd=tmp_path)
    assert [line for line in said.out.splitlines() if "missing date" not in line] == []
    shown = shell("mandoc", "-T", "utf8", tmp_path / name, cwd=tmp_path).ok().out
    shown = re.sub(r".\x08", "", shown)  # bold is struck twice
    assert "NAME" in shown and "SEE ALSO" in shown and len(shown.splitlines()) > 15


def test_functions_of_the_headers_stand_in_their_pages():
    for header, page in (("mortise.h", "libmortise.3"), ("pool.h", "libmortise_pool.3")):
        names = set(re.findall(r"\b(mo_\w+)\(", (ROOT / "include/mortise" / header).read_text()))
        assert len(names) > 10 and all(f"{name}(" in PAGES[page] for name in names)


BASH = """source {script}
complete_line() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mortise; printf '%s ' "${{COMPREPLY[@]}}"; echo; }}
complete_line mortise prof; complete_line mortise run --all; complete_line mortise run --alloc hslab_p; complete_line mortise path wfs
complete_line mortise run --conf purge; complete_line mortise run --alloc hslab -- tru
"""


def test_bash_completes(tmp_path):
    (tmp_path / "try").write_text(BASH.format(script=ROOT / "packaging/completion/mortise.bash"))
    lines = [line.split() for line in shell("bash", "try", cwd=tmp_path).ok().out.splitlines()]
    assert lines[:5] == [["profile"], ["--alloc"], ["hslab_profiled"], ["wfslab", "wfslabs"], ["purge_ms="]] and "true" in lines[5]


def test_fish_completes(tmp_path):
    asked = ["mortise prof", "mortise run --all", "mortise run --alloc hslab_p", "mortise path wfs", "mortise run -- sort --uniq"]
    script = f"source {ROOT}/packaging/completion/mortise.fish\n" + "".join(f"complete -C '{line}'\n" for line in asked)
    words = [line.split("\t")[0] for line in shell("fish", "-c", script, cwd=tmp_path).ok().out.splitlines()]
    assert words == ["profile", "--alloc", "hslab_profiled", "wfslab", "wfslabs", "--unique"]


def test_zsh_takes_the_script(tmp_path):
    """The functions that zsh's completion calls, asked for what they would offer."""
    script = ROOT / "packaging/completion/_mortise"
    probe = f"""compdef() {{ :; }}
_describe() {{ print -l -- $commands; }}
_arguments() {{ print -l -- "$@"; }}
_normal() {{ print -- "normal $words[1]"; }}
source {script}
words=(mortise ''); CURRENT=2; _mortise
words=(mortise run --a); CURRENT=3; _mortise
words=(mortise run --alloc hslab -- sort -); CURRENT=7; _mortise
"""
    assert shutil.which("zsh")
    said = shell("zsh", "-f", "-c", probe, cwd=tmp_path).ok().out
    assert "profile:Which call stacks hold memory" in said and "--alloc[" in said and said.endswith("normal sort\n")
