"""Whoever comes from another allocator types what the table says: should it name a setting or a function that there is not, nothing would happen."""

import json
import re
import subprocess
import sys

import pytest

from support.allocators import BUILD, ROOT

sys.path.insert(0, str(ROOT / "cli"))
from mortise import conf  # noqa: E402

ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (ROOT / "docs/coming.md").read_text().splitlines() if line.startswith("| ")]
WORDS = [word for row in ROWS for word in re.findall(r"`([^`]+)`", row[-1])]
SETTINGS = [word for word in WORDS if re.fullmatch(r"[a-z_]+=\S+", word)]
FUNCTIONS = [word.partition("(")[0] for word in WORDS if re.fullmatch(r"(m[ao]\w+_\w+|mallinfo2|calloc|\w+_alloc|free_\w+)(\(0\))?", word)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_is_one(setting):
    keys = {key["name"]: key for key in json.loads((BUILD / "share/mortise/conf.json").read_text())["keys"]}
    key, _, value = setting.partition("=")
    assert key in keys and conf.lacks(key, str(keys[key]["type"]), value) is None


def test_a_function_is_exported():
    libraries = [BUILD / "lib/libmortise-hslab.so", BUILD / "lib/libmortise.so"]
    listed = subprocess.run(["nm", "-D", "--defined-only", *libraries], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" [TW] (\w+)", listed))
    assert not set(FUNCTIONS) - exported


def test_there_are_such_words():
    assert len(SETTINGS) >= 10 and len(FUNCTIONS) >= 12, (SETTINGS, FUNCTIONS)
