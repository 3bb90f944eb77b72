"""The allocators under musl instead of glibc: Alpine's programs, static programs. Should they fail there, containers would have to
stay on the slowest malloc there is.
"""

import subprocess
from pathlib import Path

import pytest

from support.allocators import ROOT, run

BUILD = ROOT / "build/musl"
NAMES = ["hslab", "tlsfcc"]


@pytest.fixture(scope="module")
def built():
    subprocess.run(["cmake", "--preset", "musl"], cwd=ROOT, check=True, capture_output=True)
    done = subprocess.run(["ninja", "-C", BUILD, *(f"mortise-{name}" for name in NAMES)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-3000:]


def compiled(target: Path, *words) -> Path:
    subprocess.run(["musl-gcc", "-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror", *words, "-o", target], check=True)
    return target


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_served(built, tmp_path, name):
    target = compiled(tmp_path / "on_musl", ROOT / "tests/platforms/on_musl.c")
    assert "ld-musl" in subprocess.run(["readelf", "-l", target], check=True, capture_output=True, text=True).stdout
    done = run([target], preload=(BUILD / f"lib/libmortise-{name}.so",), env={"MORTISE_VERBOSE": "1"}).ok()
    assert done.out == "musl holds\n" and f" {name} active pid=" in done.err


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_musl_is_needed(built, name):
    listed = subprocess.run(["readelf", "-d", BUILD / f"lib/libmortise-{name}.so"], check=True, capture_output=True, text=True).stdout
    assert [line.split("[")[1].rstrip("]") for line in listed.splitlines() if "NEEDED" in line] == ["libc.so"]


def test_a_composition_is_part_of_a_static_program(mortise, tmp_path):
    for name in ("mine", "arena"):
        mortise("build", ROOT / f"examples/{name}.toml", "-o", tmp_path / f"lib{name}.a", "--compiler", ROOT / "cmake/musl-g++").ok()
    target = compiled(tmp_path / "in_c", "-static", f"-I{tmp_path}", ROOT / "tests/build/in_c.c", tmp_path / "libmine.a", tmp_path / "libarena.a")
    assert "interpreter" not in subprocess.run(["readelf", "-l", target], check=True, capture_output=True, text=True).stdout
    assert run([target]).ok().out == "two heaps, nothing lost\n"
