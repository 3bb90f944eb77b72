"""What users and Dockerfiles read: if these break, the library is found nowhere or described wrongly."""

import json

import jsonschema
import pytest
from mortise.main import COMMANDS

from cli.conftest import DESCRIPTION, KEYS, ROOT


def schema(name: str) -> dict:
    return json.loads((ROOT / "docs/schemas" / f"{name}.json").read_text())


def test_list_shows_ours_and_the_peers(cli, toy):
    document = json.loads(cli("list", "--json").stdout)
    jsonschema.validate(document, schema("list"))
    assert {a["name"]: a["library"] for a in document["allocators"]} == {"toy": str(toy), "ghost": None}
    text = cli("list").stdout
    assert "hands every request to libc" in text and "not built" in text and "glibc" in text and "\x1b" not in text


def test_path_prints_the_library_and_nothing_else(cli, toy):
    assert cli("path", "toy").stdout == f"{toy}\n"


def test_explain_shows_the_layers(cli):
    text = cli("explain", "toy").stdout
    for part in ("Forward", "asks libc", "Sync = libc's own", "depth = 1", "the budget that tests hold it to: malloc at most 3, free at most 3"):
        assert part in text
    assert json.loads(cli("explain", "toy", "--json").stdout) == DESCRIPTION


@pytest.mark.parametrize("name, document", (("allocator", DESCRIPTION), ("conf", KEYS)))
def test_the_schemas_of_what_the_build_generates_hold_for_these_examples(name, document):
    jsonschema.validate(document, schema(name))


def test_every_schema_is_a_schema():
    for path in (ROOT / "docs/schemas").glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("name", ("run", "compare", "latency", "doctor", "list", "explain", "path"))
def test_every_command_explains_itself(cli, name):
    done = cli(name, "--help")
    assert done.returncode == 0 and f"mortise {name}" in done.stdout
    assert cli(name, "-h").stdout == done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_help_is_cut_off_on_a_terminal_of_80_columns(cli, name, monkeypatch):
    """What is cut is what has to be typed: the longest words are patterns of arguments."""
    monkeypatch.setenv("COLUMNS", "80")
    assert "\u2026" not in cli(name, "--help").stdout


def test_version_and_colours(cli, monkeypatch):
    assert cli("--version").stdout.startswith("mortise 0.")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "")
    assert "\x1b" not in cli("list").stdout
