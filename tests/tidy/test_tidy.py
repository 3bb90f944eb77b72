"""The rules of the house that a script can check. If one failed, the next reader would have to know what a rule would have told."""

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import umbrellas  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MORTISE = ROOT / "include/mortise"
RANKS = {"core": 0, "os": 1, "data": 2, "sync": 2, "policy": 3, "source": 4, "backbone": 5, "cache": 6, "guard": 6, "shape": 6,
         "route": 6, "watch": 6, "pool": 7, "allocators": 8}
# Folders of one rank that may include each other: what the first builds on is named second.
WITHIN_RANK = {("data", "sync"), ("cache", "shape"), ("route", "shape"), ("watch", "shape"), ("guard", "shape"), ("guard", "cache")}
# A backbone carves spans that an index describes; the descriptor lies with the index. A route names stacks.
UPWARDS = {("backbone", "shape"), ("backbone", "cache")}
# State that is not a layer's: the futex scope, the seam of isolation, where the kernel's clock is, and the thread records that the style
# guide names.
STATEFUL = {"os/clock.hpp", "os/futex.hpp", "os/isolation.hpp", "pool/thread_record.hpp"}

FILE_LINES, FUNCTION_LINES, COLUMNS = 400, 60, 140  # code aims at 120 columns; a table or a composition may need more
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented|pytest\.mark\.(skip|xfail)|GTEST_SKIP)\b")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=ROOT, text=True, capture_output=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


HEADERS = sorted(MORTISE.rglob("*.hpp"))
INSIDE = [path for path in HEADERS if path.parent != MORTISE]
OURS = HEADERS + tracked("abi/*.cpp", "abi/*.hpp", "affinity/*.cpp", "affinity/*.hpp")
AFFINITY_RANKS = {"observe": 0, "graph": 1, "place": 2}  # above all of include/; seam.hpp and what lies beside it belong to none


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", INSIDE, ids=name_of)
def test_headers_include_lower_ranks_only(path: Path) -> None:
    folder = path.relative_to(MORTISE).parts[0]
    for line in path.read_text().splitlines():
        if not (match := re.match(r'#include "mortise/(\w+)/', line)):
            continue
        other = match[1]
        lower = RANKS[other] < RANKS[folder]
        assert lower or other == folder or (folder, other) in WITHIN_RANK | UPWARDS, f"{name_of(path)}: {line} reaches up from {folder}/"


@pytest.mark.parametrize("path", tracked("affinity/*/*.cpp", "affinity/*/*.hpp"), ids=name_of)
def test_affinity_includes_lower_ranks_only(path: Path) -> None:
    folder = path.parent.name
    for other in re.findall(r'#include "affinity/(\w+)/', path.read_text()):
        assert AFFINITY_RANKS[other] <= AFFINITY_RANKS[folder], f"{name_of(path)} reaches up from {folder}/ to {other}/"


def syntax_only(path: Path) -> str:
    done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", "-Wno-pragma-once-outside-header",
                           "-Wno-missing-field-initializers", f"-I{ROOT / 'include'}", str(path)], text=True, capture_output=True)
    return f"{name_of(path)}:\n{done.stderr[:1500]}" if done.returncode or "warning:" in done.stderr.replace("#pragma once", "") and "error" in done.stderr else ""


def test_each_header_compiles_alone() -> None:
    assert shutil.which("g++"), "g++ is not installed: run packaging/setup.sh build"
    with ThreadPoolExecutor(2) as pool:
        failures = [text for text in pool.map(syntax_only, HEADERS) if text]
    assert not failures, "\n".join(failures)


def test_umbrella_headers_are_complete() -> None:
    stale = [name_of(path) for path, text in umbrellas.expected().items() if not path.is_file() or path.read_text() != text]
    assert not stale, f"{', '.join(stale)}: run python tests/tidy/umbrellas.py"


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def test_state_has_an_owner() -> None:
    """Nothing under include/ lives outside of a heap: no thread_local, no mutable variable of a namespace or a function."""
    found = []
    for path in HEADERS:
        if str(path.relative_to(MORTISE)) in STATEFUL:
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            word = line.strip()
            is_constant = re.search(r"\b(constexpr|consteval|const)\b", word)
            if re.search(r"\bthread_local\b", word):
                found.append(f"{name_of(path)}:{number}: {word}")
            elif re.match(r"(inline|extern|static) +(?!constexpr|consteval)[\w:<>*& ]+ \w+(\[\w*\])?( *=.*|\{.*\})?;", word) and not is_constant:
                found.append(f"{name_of(path)}:{number}: {word}")
    assert not found, "\n".join(found)


def function_lengths(text: str) -> list[tuple[int, int]]:
    """(first line, length) of what looks like a function: a brace that opens after a parameter list, to the one that closes it."""
    lines, stack, found = text.splitlines(), [], []
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', '""', re.sub(r"//.*", "", line))
        for at, char in enumerate(code):
            if char == "{":
                before = code[:at]
                is_function = re.search(r"\)\s*(const|noexcept|override|requires.*|->.*|\s)*$", before) is not None
                is_control = re.match(r"\s*(\} *else|if|for|while|switch|do|else)\b", code) is not None
                stack.append((number, is_function and not is_control))
            elif char == "}" and stack:
                start, is_function = stack.pop()
                if is_function:
                    found.append((start, number - start + 1))
    return found


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_files_functions_and_lines_are_short(path: Path) -> None:
    text = path.read_text()
    lines = text.splitlines()
    assert len(lines) <= FILE_LINES, f"{name_of(path)} has {len(lines)} lines: one idea a file"
    wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
    assert not wide, f"{name_of(path)}: lines {wide} are wider than {COLUMNS} columns"
    long = [f"line {start}: {length} lines" for start, length in function_lengths(text) if length > FUNCTION_LINES]
    assert not long, f"{name_of(path)}: functions longer than {FUNCTION_LINES} lines: {long}"


@pytest.mark.parametrize("path", HEADERS, ids=name_of)
def test_headers_say_what_they_are(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines and lines[0].startswith("// "), f"{name_of(path)} begins with a sentence that says what it is"
    assert "#pragma once" in lines, f"{name_of(path)} has no #pragma once"
    assert re.fullmatch(r"[a-z][a-z0-9_]*\.hpp", path.name), f"{name_of(path)}: file names are snake_case"


def test_layers_say_what_they_are() -> None:
    for path in INSIDE:
        if path.parent.name == "core":
            continue
        if "struct Over" in (text := path.read_text()) or "class Over" in text:
            for fact in ("kName", "kWhat", "kNeeds", "describe"):
                assert fact in text, f"{name_of(path)}: a layer has a {fact}"
            assert "Placement:" in text, f"{name_of(path)}: the banner says where the layer may stand"


def test_names_follow_the_style() -> None:
    found = []
    for path in INSIDE:
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if match := re.match(r"\s*(?:template *<[^>]*> *)?#define +(\w+)", line):
                if not match[1].startswith(("MORTISE_", "MAP_", "MADV_")):
                    found.append(f"{name_of(path)}:{number}: macro {match[1]} does not begin with MORTISE_")
            if match := re.search(r"static constexpr [\w:<>,* ]+? (\w+) *(=|\{)", line):
                if not re.match(r"k[A-Z0-9]|\w+\(|type$", match[1]):
                    found.append(f"{name_of(path)}:{number}: constant {match[1]} is not named kLikeThis")
    assert not found, "\n".join(found)


def test_no_word_that_promises_instead_of_doing() -> None:
    found = []
    for path in tracked("*.hpp", "*.cpp", "*.c", "*.py", "*.md", "*.toml", "*.sh", "*.txt", "*.cmake"):
        if path == Path(__file__).resolve() or "scripts" in path.parts:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if WORDS.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def anchors_of(text: str) -> set[str]:
    heads = re.findall(r"^#+ +(.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", tracked("*.md"), ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        goal = (path.parent / file).resolve() if file else path
        if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in anchors_of(goal.read_text())):
            dead.append(target)
    for target in re.findall(r"`((?:include|abi|tests|docs|examples|cli|bench|packaging|isolate)/[\w./-]+\.\w+)`", text):
        if not (ROOT / target).exists():
            dead.append(target)
    assert not dead, f"{name_of(path)}: {dead}"


def test_changes_are_told() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## Unreleased" in text, "CHANGELOG.md has a part of what is not released yet"
