"""Allocators of one's own: what `mortise build` makes of a composition serves real programs, is explained, compared and
installed. If these broke, the ten lines of TOML in the documentation would lead nowhere.
"""

import json
import re
import subprocess

import jsonschema
import pytest

from support.allocators import BUILD, ROOT, program, run

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.toml"))
GENERAL = [name for name in EXAMPLES if name != "arena"]  # the arena is full after a mebibyte
SCHEMA = json.loads((ROOT / "docs/schemas/allocator.json").read_text())


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("contract", ("sizes", "resizing", "errors", "operators", "foreign"))
def test_a_composition_keeps_the_contract_of_malloc(built, name, contract):
    run([program("contract", contract)], preload=(built(name),)).ok()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_composition_serves_a_program(built, name):
    done = run(["sort", "-r"], preload=(built(name),), env={"MORTISE_VERBOSE": "1"}, input="a\nc\nb\n").ok()
    assert done.out == "c\nb\na\n" and f" {name} active pid=" in done.err


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_library_explains_itself(mortise, built, name):
    document = json.loads(mortise("explain", built(name), "--json").ok().out)
    jsonschema.validate(document, SCHEMA)
    text = mortise("explain", built(name)).ok().out
    assert document["name"] == name and all(layer["name"] in text for layer in document["layers"])


def test_parameters_arrive(mortise, built):
    layers = {layer["name"]: layer for layer in json.loads(mortise("explain", built("mine"), "--json").ok().out)["layers"]}
    assert list(layers) == ["Aligned", "ThreadCache", "Bypass", "Slab", "SpanCache", "PageIndex", "MmapHeap"]
    assert layers["ThreadCache"]["parameters"]["bytes_per_class"] == 64 << 10
    assert layers["Slab"]["policies"]["Sync"] == "SpinLock" and layers["Slab"]["parameters"]["block_bytes_max"] == 64 << 10
    assert layers["SpanCache"]["policies"]["Purge"] == "AtOnce"


def test_what_ships_is_a_composition_too(mortise, built):
    ours, shipped = (json.loads(mortise("explain", name, "--json").ok().out) for name in (built("like_hslab"), "hslab"))
    assert ours["layers"] == shipped["layers"] and ours["heap_bytes"] == shipped["heap_bytes"]


CRIME = """
#include <stdlib.h>
#include <string.h>
int main(int count, char** words) {
  char* volatile p = malloc(24);
  if (words[1][0] == 'o') memset(p, 1, 40);
  free(p);
  if (words[1][0] == 'd') free(p);
  return count - 2;
}
"""


@pytest.mark.parametrize("crime, fault", (("none", None), ("overflow", "tail_overwritten"), ("double", "double_free")))
def test_guards_of_a_composition_stand_guard(built, tmp_path, crime, fault):
    (tmp_path / "crime.c").write_text(CRIME)
    subprocess.run(["cc", "-O0", "-w", tmp_path / "crime.c", "-o", tmp_path / "crime"], check=True)
    done = run([tmp_path / "crime", crime], preload=(built("hardened"),))
    if fault is None:
        assert done.status == 0 and done.err == ""
    else:
        assert done.status == -6 and f"mortise[hardened] fault={fault} " in done.err


def test_run_explain_and_compare_take_the_composition_itself(mortise):
    spec = ROOT / "examples/frugal.toml"
    done = mortise("run", "--alloc", spec, "--", "sort", "/dev/null", env={"MORTISE_VERBOSE": "1"})
    assert " frugal active pid=" in done.ok().err
    assert "programs that must stay small" in mortise("explain", spec).ok().out


STALE = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  unsigned char* volatile p = malloc(100);
  p[99] = 1;
  free(p);
  printf("%d\\n", p[99]);
  return 0;
}
"""


def test_a_layer_of_ones_own_does_what_it_says(mortise, built, tmp_path):
    """From a header beside the composition; run again after a change, the composition is built anew."""
    (tmp_path / "stale.c").write_text(STALE)
    subprocess.run(["cc", "-O0", "-w", tmp_path / "stale.c", "-o", tmp_path / "stale"], check=True)
    assert run([tmp_path / "stale"], preload=(built("poisoned"),)).ok().out == "239\n"
    assert "PoisonOnFree" in mortise("explain", built("poisoned")).ok().out
    header = (ROOT / "examples/poison_on_free.hpp").read_text()
    (tmp_path / "poisoned.toml").write_text((ROOT / "examples/poisoned.toml").read_text())
    for byte, text in (("239", header), ("17", header.replace("b.ptr, kByte", "b.ptr, 17"))):
        (tmp_path / "poison_on_free.hpp").write_text(text)
        assert mortise("run", "--alloc", tmp_path / "poisoned.toml", "--", tmp_path / "stale").ok().out == f"{byte}\n"


USED_AFTER = """
#include <stdlib.h>
int main(void) {
  for (int i = 0; i < 100000; ++i) {
    char* volatile p = malloc(24);
    p[0] = 1;
    free(p);
    if (p[0] == 2) return 1;
  }
  return 0;
}
"""


def test_guards_that_sample_do_so_above_any_cache(mortise, tmp_path):
    """What counted the allocations to the next sample was not what was looked at: none came, and no malloc was a hit any more."""
    (tmp_path / "used.c").write_text(USED_AFTER)
    subprocess.run(["cc", "-O0", "-w", tmp_path / "used.c", "-o", tmp_path / "used"], check=True)
    (tmp_path / "sampling.toml").write_text('layers = [ { layer = "SampledGuards", one_in = 100, pause_ms = 0 }, "Aligned", "ThreadCache", { layer = "Bypass", '
                                            'route = { policy = "LargerThan", bytes = "256 KiB" }, wrapped = ["Slab"] }, "SpanCache", "PageIndex", "MmapHeap" ]')
    done = mortise("run", "--alloc", tmp_path / "sampling.toml", "--", tmp_path / "used")
    assert done.status == -11 and "mortise[sampling] fault=use_after_free " in done.err, done.err


FULL = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void* held[100000];
static int count, again;
static pthread_barrier_t full, empty;
static void* give(void* unused) {
  pthread_barrier_wait(&full);
  while (count) free(held[--count]);
  free(malloc(500));
  pthread_barrier_wait(&empty);
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_barrier_init(&full, NULL, 2);
  pthread_barrier_init(&empty, NULL, 2);
  pthread_create(&thread, NULL, give, NULL);
  while (count < 100000 && (held[count] = malloc(500))) ++count;
  while (count < 100000 && (held[count] = malloc(16))) ++count;
  const int had = count;
  pthread_barrier_wait(&full);
  pthread_barrier_wait(&empty);
  while (again < 100000 && malloc(500)) ++again;
  printf("%d", again > 5000);
  return had < 6000;
}
"""


def test_a_thread_that_begins_when_memory_is_out_gives_back_what_it_frees(mortise, tmp_path):
    """There is no room for its record: what it freed was nobody's, and an array that had been full once was full for ever."""
    (tmp_path / "full.c").write_text(FULL)
    subprocess.run(["cc", "-O0", "-w", tmp_path / "full.c", "-pthread", "-o", tmp_path / "full"], check=True)
    spec = 'layers = [ {{ layer = "{}" }}, "Tlsf", {{ layer = "StaticHeap", bytes = "4 MiB" }} ]'
    for layer in ("DelayedFree", "EliminationArray"):
        (tmp_path / f"{layer.lower()}.toml").write_text(spec.format(layer))
        assert mortise("run", "--alloc", tmp_path / f"{layer.lower()}.toml", "--", tmp_path / "full").ok().out == "1", layer


def test_a_record_of_a_thread_may_be_a_byte(mortise, tmp_path):
    """Idle ones hold a link to the next; such a composition did not compile, and said nothing of why."""
    (tmp_path / "byte.toml").write_text('layers = [ "Aligned", { layer = "Bypass", route = { policy = "LargerThan", bytes = "64 KiB" }, wrapped = [ { layer = "BypassFor", '
                                        'route = "RealTimeThreads", wrapped = ["Latency"] }, "Slab" ] }, "SpanCache", "PageIndex", "MmapHeap" ]')
    mortise("run", "--alloc", tmp_path / "byte.toml", "--", program("life", "threads"), "churn").ok()


LATE = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include "late.h"
static void* held;
static pthread_barrier_t full;
static void* resize(void* unused) {
  pthread_barrier_wait(&full);
  const int stayed = late_realloc(held, 500) == held;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  printf("%d%d", stayed, sigismember(&blocked, SIGUSR1));
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_barrier_init(&full, NULL, 2);
  pthread_create(&thread, NULL, resize, NULL);
  held = late_malloc(500);
  while (late_malloc(500)) {}
  while (late_malloc(16)) {}
  pthread_barrier_wait(&full);
  return pthread_join(thread, NULL);
}
"""


def test_a_block_that_stays_leaves_a_thread_without_a_record_as_it_was(mortise, tmp_path):
    """The record that such a thread borrows for a call was kept, with its lock, and signals were blocked from then on."""
    (tmp_path / "late.c").write_text(LATE)
    (tmp_path / "late.toml").write_text('layers = [ { layer = "ThreadCache" }, "Slab", "SpanCache", "PageIndex", '
                                        '{ layer = "StaticHeap", bytes = "4 MiB" } ]')
    mortise("build", tmp_path / "late.toml", "-o", tmp_path / "late.a").ok()
    subprocess.run(["cc", "-w", tmp_path / "late.c", tmp_path / "late.a", "-pthread", "-o", tmp_path / "late"], check=True)
    assert run([tmp_path / "late"]).ok().out == "10"


def test_only_self_keeps_children_out(mortise, built):
    """A library finds its own name in LD_PRELOAD, whatever it is called."""
    child = ["sh", "-c", "echo preload=$LD_PRELOAD; exec true"]
    for alloc in (built("mine"), ROOT / "examples/mine.toml"):
        assert mortise("run", "--alloc", alloc, "--only-self", "--", *child).ok().out == "preload=\n", alloc


def test_places_of_a_fault_are_named_for_it_too(mortise, built, tmp_path):
    (tmp_path / "crime.c").write_text(CRIME)
    subprocess.run(["cc", "-O0", "-g", "-w", tmp_path / "crime.c", "-o", tmp_path / "crime"], check=True)
    done = mortise("run", "--alloc", built("hardened"), "--", tmp_path / "crime", "double")
    assert done.status == -6 and "fault=double_free " in done.err and re.search(r"freed at main \(\S*crime.c:7\)", done.err), done.err


def test_a_composition_is_an_arm(mortise, built, tmp_path):
    """With the settings that it has as an allocator that ships has them."""
    out = tmp_path / "out.json"
    mortise("compare", "--arms", f"glibc,{built('frugal')}:purge_ms=5,{ROOT / 'examples/frugal.toml'}", "--rounds", "2", "--warmup", "0", "--no-profile",
            "--json", out, "--", "sort", ROOT / "README.md")
    arms = json.loads(out.read_text())["arms"]
    assert [arm["served"] for name, arm in arms.items() if "frugal" in name] == [1, 1], arms.keys()
    assert [arm["env"] for name, arm in arms.items() if "frugal" in name] == [{"MORTISE_CONF": "purge_ms=5"}, {}]


def test_an_installed_copy_builds_too(tmp_path, mortise):
    """The kit alone, somewhere else, without the tree that it came from."""
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path / "usr", "--component", "dev"], check=True, capture_output=True)
    kit = json.loads((tmp_path / "usr/share/mortise/kit.json").read_text())
    assert not any(str(ROOT) in str(kit[key]) for key in ("include", "sources", "generated"))
    installed = {"env": {"MORTISE_HOME": str(tmp_path / "usr"), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": ""}}
    python = next(p for p in (BUILD / "venv/bin/python", ROOT / "build/venv/bin/python") if p.exists())
    words = [python, "-E", ROOT / "cli", "build", ROOT / "examples/mine.toml", "-o", tmp_path / "libmine.so"]
    run(words, **installed).ok()
    run([program("contract", "sizes")], preload=(tmp_path / "libmine.so",)).ok()


def test_programs_in_c_use_static_libraries_several_at_once(built, tmp_path):
    libraries = [built(name, ".a") for name in ("mine", "arena")]
    for library in libraries:
        assert library.with_suffix(".h").exists()
    target = tmp_path / "in_c"
    includes = [f"-I{library.parent}" for library in libraries]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", *includes, ROOT / "tests/build/in_c.c", *libraries, "-pthread", "-o", target],
                   check=True)
    assert run([target]).ok().out == "two heaps, nothing lost\n"
    crime = run([target, "crime"])
    assert crime.status == -6 and re.search(r"mortise\[mine\] fault=invalid_free ptr=0x", crime.err)


SHRUNK = """
#include <string.h>
#include "libarena.h"
#include "libhardened.h"
int main(int count, char** words) {
  (void)words;
  char* p = arena_realloc(arena_malloc(1000), 600);
  if (p == NULL || arena_usable_size(p) >= 1000) return 1;
  p = hardened_realloc(hardened_malloc(100), 60);
  memset(p, 1, count > 1 ? 61 : 60);
  hardened_free(p);
  return 0;
}
"""


def test_a_static_library_resizes_as_a_preloaded_one_does(built, tmp_path):
    """A block that kept its place stayed as long as it was: a write past its new end was nobody's, and an arena got nothing back."""
    libraries = [built(name, ".a") for name in ("hardened", "arena")]
    (tmp_path / "shrunk.c").write_text(SHRUNK)
    includes = [f"-I{library.parent}" for library in libraries]
    subprocess.run(["cc", "-O0", "-w", *includes, tmp_path / "shrunk.c", *libraries, "-pthread", "-o", tmp_path / "shrunk"], check=True)
    assert run([tmp_path / "shrunk"]).status == 0
    overflow = run([tmp_path / "shrunk", "overflow"])
    assert overflow.status == -6 and "mortise[hardened] fault=tail_overwritten " in overflow.err


def test_a_static_library_shows_its_own_names_only(built):
    listed = subprocess.run(["nm", "--defined-only", "--extern-only", built("arena", ".a")], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in listed.splitlines() if " T " in line or " B " in line or " D " in line or " V " in line or " W " in line or " u " in line}
    declared = set(re.findall(r"\b(arena_\w+)\(", built("arena", ".a").with_suffix(".h").read_text()))
    assert names == declared
