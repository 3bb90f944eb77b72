"""`mortise doctor` says before a run what would come of it; a wrong word here sends users after results that mean
nothing.
"""

import json
import shutil

import jsonschema
import pytest
from mortise import doctor, elf

from cli.conftest import compile_c
from cli.test_commands import schema


def codes(path) -> dict[str, str]:
    elf.image.cache_clear()
    return {finding.code: finding.weight for finding in doctor.diagnose(str(path)).findings}


def build(folder, text, *flags):
    (folder / "program.c").write_text(text)
    return compile_c(folder / "program.c", folder / "program", *flags)


PLAIN = "#include <stdlib.h>\nint main(int c, char** v) { (void)v; free(malloc((size_t)c)); return 0; }\n"


def test_a_plain_program_will_be_served(cli, churn):
    document = json.loads(cli("doctor", "--json", "--", str(churn)).stdout)
    jsonschema.validate(document, schema("doctor"))
    assert document["served"] and document["as_shipped"] == "glibc"
    done = cli("doctor", "--", str(churn))
    assert done.returncode == 0 and "malloc comes from glibc" in done.stdout


def test_static(static_program):
    assert codes(static_program)["static"] == doctor.BLOCKS


def test_set_uid(set_uid_program):
    assert codes(set_uid_program)["set-id"] == doctor.BLOCKS


def test_own_malloc(tmp_path):
    text = PLAIN + "void* malloc(size_t n) { (void)n; return 0; }\nvoid free(void* p) { (void)p; }\n"
    program = build(tmp_path, text, "-fno-builtin", "-rdynamic")
    assert codes(program)["own-malloc"] == doctor.BLOCKS
    assert doctor.diagnose(str(program)).as_shipped == "its own"


def test_sanitizer(tmp_path):
    program = build(tmp_path, PLAIN, "-fsanitize=address")
    assert codes(program)["sanitizer"] == doctor.BLOCKS
    said = next(finding.text for finding in doctor.diagnose(str(program)).findings if finding.code == "sanitizer")
    assert said.count("libasan") == 1, "the program needs it, and so do its libraries"


def test_linked_allocator_is_what_serves_as_shipped(tmp_path, toy):
    jemalloc = tmp_path / "libjemalloc.so.2"
    shutil.copy(toy, jemalloc)
    program = build(tmp_path, PLAIN, f"-Wl,--no-as-needed,-rpath,{tmp_path}", str(jemalloc))
    # The toy has no soname, so the program needs it by the path it was linked with.
    diagnosis = doctor.diagnose(str(program))
    assert diagnosis.as_shipped == "jemalloc"
    assert "links-allocator" in {f.code for f in diagnosis.findings}


def test_dlopen_dlmopen_and_private_interfaces_are_mentioned(tmp_path):
    text = PLAIN.replace("int main", "#include <dlfcn.h>\nvoid* user = (void*)dlopen;\nint main")
    assert codes(build(tmp_path, text))["dlopen"] == doctor.NOTES
    text = "#define _GNU_SOURCE\n#include <dlfcn.h>\nvoid* user = (void*)dlmopen;\n" + PLAIN
    assert codes(build(tmp_path, text))["dlmopen"] == doctor.WARNS
    (tmp_path / "stub.c").write_text("int mallctl(const char* n) { return n == 0; }\n")
    stub = compile_c(tmp_path / "stub.c", tmp_path / "libstub.so", "-shared", "-fPIC")
    text = "int mallctl(const char*);\n" + PLAIN.replace("return 0", 'return mallctl("x")')
    assert codes(build(tmp_path, text, str(stub)))["private-api"] == doctor.WARNS


def library(folder, file, *functions):
    (folder / "stub.c").write_text("".join(f"long {name}(void) {{ return 0; }}\n" for name in functions))
    return str(compile_c(folder / "stub.c", folder / file, "-shared", "-fPIC"))


def calling(*functions, before=""):
    return "".join(f"{before}long {name}(void);\n" for name in functions) + PLAIN.replace("return 0", f"return (int)({'() + '.join(functions)}())")


@pytest.mark.parametrize("family, functions", (("jemalloc", ("malloc_stats_print", "sallocx")), ("tcmalloc", ("MallocExtension_GetStats",)),
                                               ("mimalloc", ("mi_free", "mi_heap_new", "mi_malloc", "mi_option_set", "mi_realloc", "mi_zalloc"))))
def test_functions_that_only_one_allocator_has_are_named_with_it(tmp_path, family, functions):
    """Who calls mi_malloc gets nothing of what is preloaded: without a word every allocator would be called equal."""
    stub = library(tmp_path, "libstub.so", *functions)
    elf.image.cache_clear()
    found = doctor.diagnose(str(build(tmp_path, calling(*functions), stub, f"-Wl,-rpath,{tmp_path}"))).findings
    said, = (finding.text for finding in found if finding.code in ("private-api", "built-in"))
    assert f"calls {family}'s own {functions[0]}" in said and ("and 2 more" in said) == (family == "mimalloc")


def test_a_function_that_is_only_looked_for_is_none_that_is_called(tmp_path):
    """Cargo's TLS uses sdallocx where there is one; nothing of it stays behind under another allocator."""
    text = calling("sdallocx", before="__attribute__((weak)) ")
    assert "private-api" not in codes(build(tmp_path, text, "-fPIE", "-pie"))
    jemalloc = library(tmp_path, "libjemalloc.so.2", "sdallocx")
    assert codes(build(tmp_path, text, "-Wl,--no-as-needed", jemalloc, f"-Wl,-rpath,{tmp_path}"))["private-api"] == doctor.WARNS


@pytest.mark.parametrize("name, family", (("_rjem_malloc", "jemalloc"), ("mi_malloc_aligned", "mimalloc")))
def test_an_allocator_under_names_of_its_own_is_told_of(tmp_path, name, family):
    """A Rust program has its global allocator like that, and calls it where a C program calls malloc."""
    program = build(tmp_path, f"long {name}(void) {{ return 0; }}\n" + calling(name))
    elf.image.cache_clear()
    assert [f.text for f in doctor.diagnose(str(program)).findings if f.code == "built-in" and family in f.text and name in f.text]
    assert "built-in" not in codes(build(tmp_path, PLAIN))


def test_settings_of_other_allocators_are_told_of(churn, monkeypatch):
    """Or whoever changes over measures with what nobody reads."""
    for name in ("MALLOC_CONF", "MIMALLOC_VERBOSE", "MIMALLOC_SHOW_STATS", "MALLOC_ARENA_MAX"):
        monkeypatch.setenv(name, "1")
    said = [f.text for f in doctor.diagnose(str(churn)).findings if f.code == "settings"]
    assert said == ["MALLOC_CONF is set: nobody but jemalloc reads it", "MIMALLOC_SHOW_STATS, MIMALLOC_VERBOSE are set: nobody but mimalloc reads them",
                    "MALLOC_ARENA_MAX is set: nobody but glibc reads it"]


def test_musl_and_foreign_machines(tmp_path):
    assert codes(build(tmp_path, PLAIN, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"))["musl"] == doctor.BLOCKS
    program = build(tmp_path, PLAIN)
    image = bytearray(program.read_bytes())
    image[18:20] = (0x14).to_bytes(2, "little")  # e_machine: PowerPC
    program.write_bytes(image)
    assert codes(program)["machine"] == doctor.BLOCKS


def test_a_preload_that_is_there_is_mentioned(churn, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    assert codes(churn)["preloaded"] == doctor.NOTES


@pytest.mark.parametrize("name, variable", (("python3", "PYTHONMALLOC=malloc"), ("php", "USE_ZEND_ALLOC=0")))
def test_programs_with_pools_of_their_own(tmp_path, churn, name, variable):
    program = tmp_path / name
    shutil.copy(churn, program)
    assert any(variable in f.text for f in doctor.diagnose(str(program)).findings)
