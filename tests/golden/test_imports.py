"""Should a library need more than libc's core, it would not load everywhere, or call malloc from within malloc."""

import io
import subprocess
import tomllib
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.descriptions import describe_reloc_type

from support.allocators import NAMES, ROOT, library

HERE = Path(__file__).parent
STATIC_TLS_MAX = 64
INITIAL_EXEC = {"R_X86_64_TPOFF64", "R_AARCH64_TLS_TPREL"}
ANY_TLS = ("TPOFF", "DTPMOD", "DTPOFF", "TLSDESC", "TLS_", "TLSGD", "TLSLD")


def elf(name: str) -> ELFFile:
    return ELFFile(io.BytesIO(library(name).read_bytes()))


def symbols_of(name: str, which: str) -> set[str]:
    listed = subprocess.run(["nm", "-D", which, str(library(name))], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


@pytest.mark.parametrize("name", NAMES)
def test_undefined_symbols_are_on_the_list(name):
    allowed = {line.split("#")[0].strip() for line in (HERE / "undefined.txt").read_text().splitlines()} - {""}
    undefined = symbols_of(name, "--undefined-only")
    assert undefined <= allowed, f"not on tests/golden/undefined.txt: {sorted(undefined - allowed)}"


@pytest.mark.parametrize("name", NAMES)
def test_needs_libc_alone(name):
    needed = [tag.needed for tag in elf(name).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    decoder = ("libZydis.so", "libZycore.so") if name.endswith("+affinity") else ()  # needs libc alone itself, and no memory
    assert [n for n in needed if not n.startswith(("libc.so", "ld-linux", *decoder))] == []


@pytest.mark.parametrize("name", NAMES)
def test_thread_local_memory_is_small_and_static(name):
    segments = [s for s in elf(name).iter_segments() if s["p_type"] == "PT_TLS"]
    assert sum(s["p_memsz"] for s in segments) <= STATIC_TLS_MAX
    file = elf(name)
    most = 64 if file["e_machine"] == "EM_X86_64" else 16
    assert all(s["p_align"] <= most for s in segments), "glibc's dlopen refuses what is aligned more than static TLS"
    kinds = {describe_reloc_type(r["r_info_type"], file) for s in file.iter_sections() if s["sh_type"] == "SHT_RELA"
             for r in s.iter_relocations()}
    of_tls = {k for k in kinds if any(part in k for part in ANY_TLS)}
    assert of_tls <= INITIAL_EXEC, "only initial-exec: another model calls __tls_get_addr, which may allocate"


@pytest.mark.parametrize("name", NAMES)
def test_exports_nothing_but_the_table(name):
    table = tomllib.loads((ROOT / "abi/abi.toml").read_text())
    symbols = {f["name"] for f in table["function"]} | {n for group in table["operator"] for n in group["names"]}
    exported = symbols_of(name, "--defined-only")
    assert symbols <= exported
    assert {s for s in exported - symbols if not s.startswith("mortise_")} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_heap_takes_no_room_in_the_file(name):
    """Pages of a heap that lies in the file are read by sixteens: a small program had 200 KiB more."""
    data = elf(name).get_section_by_name(".data")
    assert data["sh_size"] <= 16 << 10
