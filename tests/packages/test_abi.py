"""The interfaces of libmortise and libmortise_pool are the recorded ones. If this failed, programs that were linked yesterday might crash today."""

import re

import pytest

from packages.conftest import shell
from support.allocators import BUILD, ROOT

HEADERS = ROOT / "include/mortise"
SAME, INCOMPATIBLE = 0, 8  # bits of abidiff's exit status


def abidiff(recorded, library, cwd, headers=HEADERS):
    header = headers / ("pool.h" if "pool" in recorded.name else "mortise.h")
    options = ("--header-file2", header, "--exported-interfaces-only", "--drop-private-types", "--no-show-locs")
    return shell("abidiff", *options, recorded, library, cwd=cwd)


@pytest.mark.parametrize("name", ["mortise", "mortise_pool"])
def test_interfaces_are_as_recorded(name, tmp_path):
    recorded = ROOT / f"packaging/abi/lib{name}.so.0.abi"
    assert len(re.findall(r"<function-decl name='mo_", recorded.read_text())) >= 12, "the record holds no types"
    ran = abidiff(recorded, BUILD / f"lib/lib{name}.so", tmp_path)
    assert ran.status == SAME, f"{ran.out}\nIf this is meant: raise SOVERSION where it is incompatible, then 'make abi'"


@pytest.mark.parametrize("change", [
    ("size_t align; ", "uint32_t align; "),          # a field of a structure that programs fill in
    ("uint32_t mo_pool_prefill(mo_pool* pool, uint32_t n)", "uint32_t mo_pool_prefill(mo_pool* pool, uint64_t n)"),
    ("mo_pool_owns", "mo_pool_has"),                 # a function that is gone
])
def test_an_incompatible_change_is_seen(change, tmp_path):
    """The same library from sources that differ in one word."""
    old, new = change
    for folder, file in (("mortise", HEADERS / "pool.h"), (".", ROOT / "pool/mo_pool.cpp")):
        text = file.read_text()
        changed = text.replace(old, new).replace(f"{old.split('(')[0]}(", f"{new.split('(')[0]}(") if "(" in old else text.replace(old, new)
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / file.name).write_text(changed.replace("uint32_t n)", "uint64_t n)") if "uint64_t n" in new else changed)
    assert (tmp_path / "mortise/pool.h").read_text() != (HEADERS / "pool.h").read_text()
    shell("g++", "-std=c++20", "-g", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-I.", f"-I{ROOT}/include", "mo_pool.cpp",
          "-Wl,-soname,libmortise_pool.so.0", "-o", "libmortise_pool.so", cwd=tmp_path).ok()
    assert abidiff(ROOT / "packaging/abi/libmortise_pool.so.0.abi", tmp_path / "libmortise_pool.so", tmp_path, tmp_path / "mortise").status & INCOMPATIBLE
