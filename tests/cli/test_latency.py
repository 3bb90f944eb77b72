"""`mortise latency`: if these failed, a tail would be told that no call had, calls would go missing, or a program would break."""

import json
import os
import re
import subprocess
import sys

import jsonschema
import pytest
from mortise import latency, latency_file, symbols
from mortise.arms import Arm
from mortise.launching import Launcher, Request
from playwright.sync_api import expect

from cli.conftest import ROOT, compile_c
from cli.test_commands import schema
from cli.test_page import Opened, browser  # noqa: F401

PROGRAM = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void pairs(int count) { for (int i = 0; i < count; i++) { void* volatile p = malloc(24 + i % 100); free(p); } }
static void* thread(void* count) { pairs((int)(long)count); return NULL; }
static void* freed_by_libc(void* nothing) { pairs(1); return strerror(12345) ? nothing : NULL; }
static pthread_barrier_t full, empty;
static void* slots[1100];
static void* holds_a_record(void* nothing) { pairs(1); pthread_barrier_wait(&full); return nothing; }
static void* comes_later(void* nothing) {
  pairs(1);
  for (int i = 0; i < 2; i++) pthread_barrier_wait(&empty);
  for (int i = 0; i < 1100; i++) slots[i] = malloc(10);
  return nothing;
}
__attribute__((noinline)) void* slow_place(size_t size) { void* volatile p = malloc(size); return p; }
static void alone_with_a_hog(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  pid_t hog = fork();
  if (hog == 0) for (;;) {}
  free(slow_place(30003));
  kill(hog, SIGKILL);
}
static volatile int forked, is_due = 1, is_child;
static void fork_for_a_while(int signal) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) { is_child = signal; return; }
  waitpid(child, &status, 0);
  if (status != 0) _exit(3);
  forked++, is_due = 1;
}
int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "pairs";
  int count = argc > 2 ? atoi(argv[2]) : 1000;
  if (strcmp(mode, "pairs") == 0) pairs(count);
  if (strcmp(mode, "sparse") == 0) for (int i = 0; i < count; i++) { pairs(1000); usleep(3000); }
  if (strcmp(mode, "mixed") == 0) { pairs(count); for (int i = 0; i < count / 10; i++) free(slow_place(40004)); }
  if (strcmp(mode, "all") == 0) {
    for (int i = 0; i < count; i++) {
      free(calloc(10, 10));
      free(realloc(malloc(10), 5000));
      free(aligned_alloc(64, 128));
      void* p;
      if (posix_memalign(&p, 4096, 100) != 0) return 1;
      free(p);
      errno = 7;
      free(NULL);
      if (errno != 7) return 2;
    }
  }
  if (strcmp(mode, "threads") == 0)
    for (int i = 0; i < 50; i++) {
      pthread_t t[4];
      for (int k = 0; k < 4; k++) pthread_create(&t[k], NULL, thread, (void*)(long)count);
      for (int k = 0; k < 4; k++) pthread_join(t[k], NULL);
    }
  if (strcmp(mode, "crowd") == 0) {
    pthread_t one, t[1030];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&full, NULL, 1031);
    pthread_barrier_init(&empty, NULL, 2);
    for (int k = 0; k < 1030; k++) if (pthread_create(&t[k], &small, holds_a_record, NULL) != 0) return 3;
    pthread_create(&one, &small, comes_later, NULL);
    pthread_barrier_wait(&empty);
    pthread_barrier_wait(&full);
    for (int k = 0; k < 1030; k++) pthread_join(t[k], NULL);
    pthread_barrier_wait(&empty);
    pthread_join(one, NULL);
  }
  if (strcmp(mode, "ended") == 0)
    for (int i = 0; i < count; i++) {
      pthread_t t;
      pthread_create(&t, NULL, freed_by_libc, NULL);
      pthread_join(t, NULL);
    }
  if (strcmp(mode, "handler") == 0) {
    signal(SIGALRM, fork_for_a_while);
    while (forked < count) { if (is_due) is_due = 0, ualarm(300, 0); pairs(1); if (is_child) _exit(0); }
  }
  if (strcmp(mode, "fork") == 0) { if (fork() == 0) { pairs(2 * count); _exit(0); } wait(NULL); pairs(count); }
  if (strcmp(mode, "exec") == 0) { pairs(count); execl(argv[0], argv[0], "pairs", "3000", NULL); return 1; }
  if (strcmp(mode, "killed") == 0) { pairs(count); raise(SIGKILL); }
  if (strcmp(mode, "slow") == 0) { pairs(100); free(slow_place(10001)); free(slow_place(20002)); pairs(100); }
  if (strcmp(mode, "torn") == 0) { pairs(100); alone_with_a_hog(); }
  puts("done");
  return 0;
}
"""
# Hands everything to libc but four sizes: the first waits, the second maps and touches, the third computes for 300 ms, the last for 50 µs.
SLOW = """
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
extern void __libc_free(void*);
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000 + t.tv_nsec / 1000; }
void* malloc(size_t n) {
  if (n == 10001) usleep(3000);
  if (n == 20002) {
    char* p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1;
    munmap(p, 1 << 20);
  }
  if (n == 30003) for (long until = now() + 300000; now() < until;) {}
  if (n == 40004) for (long until = now() + 50; now() < until;) {}
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }
void free(void* p) { __libc_free(p); }
"""
OPERATORS = """
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>
struct alignas(128) Wide { char bytes[256]; };
int main(int argc, char**) {
  for (int i = 0; i < 1000; i++) {
    std::vector<std::string> words(3, std::string(100, 'x'));
    auto wide = std::make_unique<Wide>();
    delete[] new int[10];
    if (reinterpret_cast<unsigned long>(wide.get()) % 128) return 1;
  }
  try { operator delete(operator new(static_cast<std::size_t>(argc) << 62)); } catch (const std::bad_alloc&) { std::puts("bad_alloc"); }
  if (new (std::nothrow) char[static_cast<std::size_t>(argc) << 62] != nullptr) return 2;
}
"""
# A program whose own C++ library has no more than it uses, and a plug-in that brings one, too.
NARROW = """
#include <dlfcn.h>
struct Object { int words[9]; };
Object* volatile object;
int main(int, char** argv) {
  object = new Object;
  delete object;
  void* const plug_in = dlopen(argv[1], RTLD_NOW);
  return plug_in ? reinterpret_cast<int (*)()>(dlsym(plug_in, "run"))() : 1;
}
"""
ARRAYS = """
#include <new>
extern "C" int run() {
  delete[] new char[100];
  delete[] new (std::nothrow) char[100];
  return 0;
}
"""
# Opens a plug-in; where OWN is set, with basic operators of its own.
OPENER = """
#include <dlfcn.h>
#include <cstdlib>
#include <new>
#ifdef OWN
void* operator new(std::size_t size) { if (void* p = std::malloc(size)) return p; throw std::bad_alloc(); }
void operator delete(void* p) noexcept { std::free(p); }
#endif
int main(int, char** argv) { return !dlopen(argv[1], RTLD_NOW); }
"""
# The loader, which has opened it, waits in its constructor for a thread that calls such operators first.
WAITED_FOR = """
#include <cstdlib>
#include <new>
#include <thread>
std::size_t volatile few = 100, too_many = ~std::size_t{0} / 2;
struct Waits {
  Waits() { std::thread(run).join(); }
  static void run() {
    delete[] new char[few];
    delete[] new (std::nothrow) char[few];
    if (new (std::nothrow) char[too_many]) std::abort();
    try { delete[] new char[too_many]; std::abort(); } catch (const std::bad_alloc&) {}
  }
} waits;
"""
# An allocator without memalign: libc's gives blocks that it does not know.
WITHOUT_MEMALIGN = """
#include <stdlib.h>
#include <string.h>
static _Alignas(4096) char room[1 << 24];
static size_t used;
void* aligned_alloc(size_t align, size_t size) {
  if (size % align != 0) abort();
  char* p = room + (used = (used + sizeof size + align - 1) / align * align);
  used += size;
  return memcpy(p - sizeof size, &size, sizeof size) + sizeof size;
}
void* malloc(size_t size) { return aligned_alloc(16, (size + 15) / 16 * 16); }
void* calloc(size_t n, size_t m) { return malloc(n * m); }
void free(void* p) { if (p && (size_t)((char*)p - room) >= sizeof room) abort(); }
void* realloc(void* p, size_t size) {
  void* q = malloc(size);
  size_t held = 0;
  if (p) memcpy(&held, (char*)p - sizeof held, sizeof held);
  return p ? memcpy(q, p, held < size ? held : size) : q;
}
"""
ALIGNED = """
#include <new>
struct alignas(128) Wide { char bytes[300]; };
Wide* volatile wide;
int main() {
  for (int i = 0; i < 1000; i++) delete (wide = new Wide);
  ::operator delete(::operator new(200, std::align_val_t(64)), std::align_val_t(64));
}
"""
# Must know what is mapped, as caches of mappings must, and libraries that register memory with a device.
KNOWS_MAPPINGS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static int seen;
int how_many(void) { return seen; }
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  seen++;
  return (void*)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
int munmap(void* at, size_t bytes) { return seen++, (int)syscall(SYS_munmap, at, bytes); }
int madvise(void* at, size_t bytes, int advice) { return seen++, (int)syscall(SYS_madvise, at, bytes, advice); }
"""
MAPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(void) {
  int (*how_many)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "how_many");
  const int before = how_many();
  void* p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (madvise(p, 8192, MADV_DONTNEED) != 0 || munmap(p, 8192) != 0) return 2;
  return how_many() - before != 3;
}
"""
# Asks for memory while the layer looks for its allocator, and at the end resizes and frees what it got.
EARLY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
static char* kept[2];
void* dlsym(void* where, const char* name) {
  static void* (*theirs)(void*, const char*);
  if (!theirs) *(void**)&theirs = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (!kept[0] && strcmp(name, "calloc") == 0) for (int i = 0; i < 2; i++) kept[i] = memset(malloc(100), 'x', 100);
  return theirs(where, name);
}
__attribute__((destructor)) static void end(void) {
  Dl_info at;
  if (!kept[0] || !dladdr(kept[0], &at) || !strstr(at.dli_fname, "mortise-latency.so")) abort();
  char* larger = realloc(kept[0], 100000);
  for (int i = 0; i < 100; i++) if (larger[i] != 'x') abort();
  free(larger);
  free(kept[1]);
}
"""
PRECISE = latency.Clock("tsc", "", 1.0, 1.0, 1.0, 0)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("latency")
    (folder / "calls.c").write_text(PROGRAM)
    return compile_c(folder / "calls.c", folder / "calls", "-fno-builtin", "-g", "-pthread")


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    (folder / "slow.c").write_text(SLOW)
    return compile_c(folder / "slow.c", folder / "libslow.so", "-shared", "-fPIC", "-fno-builtin")


def timed(*words, library=None, every=1, clock=PRECISE):
    """One run behind the layer: its facts and its processes."""
    arm = Arm("arm", "library" if library else "shipped", library and str(library))
    return latency.run(Launcher(), Request([str(w) for w in words], arm), clock, every)


def calls(processes, kind):
    return sum(int(p.calls[latency_file.KINDS.index(kind)]) for p in processes)


def counted(processes, kind):
    index = latency_file.KINDS.index(kind)
    return sum(int(p.counts[index].sum() + p.torn[index].sum()) for p in processes)


@pytest.mark.parametrize("in_front_of_another", (False, True))
def test_every_call_is_counted_once_and_timed(program, toy, in_front_of_another):
    library = toy if in_front_of_another else None
    (_, few), (_, many) = (timed(program, "all", n, library=library) for n in (1000, 3000))
    more = {kind: calls(many, kind) - calls(few, kind) for kind in latency_file.KINDS[:-1]}
    assert more == {"malloc": 2000, "calloc": 2000, "realloc": 2000, "aligned": 4000, "free": 10000}
    for kind in latency_file.KINDS[:-1]:
        assert counted(many, kind) == calls(many, kind)
    assert counted(many, "empty") == sum(calls(many, k) for k in latency_file.KINDS[:-1]) // 16
    assert many[0].serves.endswith("libmortise-toy.so" if in_front_of_another else "libc.so.6")


def test_a_place_in_cpp_is_the_programs_own(tmp_path):
    """What makes a vector calls operator new in a header of the C++ library, which was inlined there: it would be the place of every call."""
    source, program = tmp_path / "grown.cpp", tmp_path / "grown"
    source.write_text("#include <vector>\n[[gnu::noinline]] int grown(int n) { return std::vector<int>(n)[n / 2]; }\n"
                      "int main(int count, char**) { return grown(100 * count); }\n")
    subprocess.run(["g++", "-g", "-O2", source, "-o", program], check=True)
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True, capture_output=True, text=True).stdout
    behind = re.search(r"\scall .*<_Znwm@plt>\n +([0-9a-f]+):", code)
    assert symbols.named(str(program), int(behind[1], 16)) == ("grown(int)", f"{source}:2")


def test_an_alternating_program_has_its_mallocs_sampled_too(program):
    """With a period of 64 shared by both kinds every sample would fall on the frees."""
    _, few = timed(program, "pairs", 2_560_000, every=64)
    assert calls(few, "malloc") >= 2_560_000
    for kind in ("malloc", "free"):
        assert abs(counted(few, kind) - 40_000) < 4600, kind  # eight standard deviations of 5 000 calls that count for eight


def test_where_calls_are_dense_fewer_are_timed_and_each_counts_for_more(program, slow):
    """Of a program that does nothing but ask for memory every eighth call that was wanted is timed, of one that rests between calls every one."""
    _, dense = timed(program, "pairs", 2_560_000, every=64)
    _, sparse = timed(program, "sparse", 40, every=64)
    for index, kind in enumerate(latency_file.KINDS[:-1]):
        seen, stands_for = int(dense[0].timed[index]), counted(dense, kind)
        assert kind not in ("malloc", "free") or 5 * seen < stands_for < 8 * seen, "one in 512, but for the first"
        assert counted(sparse, kind) == int(sparse[0].timed[index]), "one in 64, and it counts for one"
    assert int(sparse[0].timed[0]) > 64 * 2 and calls(sparse, "malloc") >= 40 * 1000
    malloc = latency.kind_of(0, timed(program, "mixed", 300_000, every=64, library=slow)[1], PRECISE)
    rare = sum(n for ns, n in malloc["histogram"] + malloc["torn_histogram"] if ns > 20_000) / (sum(n for _, n in malloc["histogram"]) + malloc["torn"])
    # Some 150 timed calls stand for 30 000 of 330 000: 9 %, with a standard deviation of a tenth of that; each told once they were 20 %.
    assert 0.045 < rare < 0.145, "those that come seldom do not gain a share by being timed more often"


def test_calls_that_were_expected_and_never_came_are_not_told(program):
    """They are counted ahead, a gap at a time: of a program of three calls it said some hundred."""
    whole, sampled = (timed(program, "pairs", 3, every=n)[1] for n in (1, 4000))
    assert calls(sampled, "malloc") == calls(whole, "malloc") and calls(sampled, "free") == calls(whole, "free")


def test_blocks_given_before_the_allocator_was_known_are_resized_and_freed(program, tmp_path):
    (tmp_path / "early.c").write_text(EARLY)
    early = compile_c(tmp_path / "early.c", tmp_path / "libearly.so", "-shared", "-fPIC", "-fno-builtin")
    facts, processes = timed(program, "pairs", 1000, library=early)
    assert facts["exit_status"] == 0 and calls(processes, "free") >= 1000


def test_who_must_know_of_mappings_hears_of_them(tmp_path):
    for code, name, flags in ((KNOWS_MAPPINGS, "knows.so", ("-shared", "-fPIC")), (MAPS, "maps", ())):
        (tmp_path / f"{name}.c").write_text(code)
        compile_c(tmp_path / f"{name}.c", tmp_path / name, *flags)
    facts, processes = timed(tmp_path / "maps", library=tmp_path / "knows.so")
    assert facts["exit_status"] == 0 and processes


def test_a_limit_on_the_size_of_files_ends_no_program(cli, program):
    words = ("latency", "--arms", "glibc", "--", "sh", "-c", f"ulimit -f 100 && {program} pairs 1000")
    assert "ended" not in cli(*words).stdout
    done = subprocess.run(["sh", "-c", 'ulimit -f 2000 && exec "$@"', "sh", sys.executable, ROOT / "cli", *words[:4], program], capture_output=True, text=True)
    assert done.returncode == 1 and "glibc: failed: " in done.stdout and "(ulimit -f)" in done.stdout, done.stdout + done.stderr


def test_threads_share_records_one_after_the_other_and_lose_nothing(program):
    (_, few), (_, many) = (timed(program, "threads", n) for n in (100, 300))
    assert calls(many, "malloc") - calls(few, "malloc") == 50 * 4 * 200
    assert many[0].threads <= 9 and many[0].untimed_threads == 0


def test_each_process_counts_for_itself_however_it_ends(program):
    _, forked = timed(program, "fork", 5000)
    assert sorted(int(p.calls[0]) // 5000 for p in forked) == [1, 2], "the child of fork ended by _exit"
    _, replaced = timed(program, "exec", 5000)
    assert sorted(int(p.calls[0]) // 1000 for p in replaced) == [3, 5] and len({p.pid for p in replaced}) == 1
    facts, killed = timed(program, "killed", 5000)
    assert facts["exit_status"] == 128 + 9 and calls(killed, "malloc") >= 5000


def test_a_handler_may_fork_amid_a_timed_call(program):
    """The child crashed as the call went on there: whose record it was timed in had been forgotten."""
    facts, processes = timed(program, "handler", 100)
    assert facts["exit_status"] == 0 and len(processes) > 100


def test_a_thread_that_found_no_record_at_first_counts_all_that_it_is_timed_for(program):
    """What it did meanwhile was taken off at its end: of those that had a record, too."""
    _, processes = timed(program, "crowd")
    assert processes[0].untimed_threads and all(counted(processes, kind) == calls(processes, kind) for kind in latency_file.KINDS[:-1])


def test_what_libc_frees_for_threads_that_have_ended_takes_no_records(program):
    """From the thousandth thread on that had asked for an error's words no call was counted any more, and up to there a gap of frees too many each."""
    whole, sampled = (timed(program, "ended", 1100, every=n)[1] for n in (1, 4000))
    assert max(whole[0].threads, sampled[0].threads) <= 9 and whole[0].untimed_threads == sampled[0].untimed_threads == 0
    assert calls(sampled, "malloc") == calls(whole, "malloc") and calls(sampled, "free") == calls(whole, "free"), "those of NULL, too"


def find(entries, size):
    return next(call for call in entries if call["bytes"] == size)


def test_the_slowest_calls_are_told_with_size_place_and_cause(program, slow):
    facts, processes = timed(program, "slow", library=slow)
    calls_told = latency.told((c for p in processes for c in p.slow + p.torn_calls), PRECISE)
    waited, mapped = find(calls_told, 10001), find(calls_told, 20002)
    assert waited["cause"].startswith(("contention (it waited)", "preemption")) and waited["waits"] >= 1
    assert "system call (mmap, munmap)" in mapped["cause"] and mapped["minor_faults"] >= 256
    assert waited["site"]["symbol"] == "slow_place" and "calls.c:" in waited["site"]["source"]
    assert "slow_place (" in symbols.words(waited["site"])


def test_a_free_tells_the_size_of_what_it_freed_and_that_it_went_back(program):
    """glibc unmaps large blocks from within: seen from the page that is gone."""
    code = "#include <stdlib.h>\n#include <string.h>\nint main(void) { void* p = malloc(50 << 20); memset(p, 1, 50 << 20); free(p); }\n"
    source = program.parent / "large.c"
    source.write_text(code)
    _, processes = timed(compile_c(source, program.parent / "large", "-fno-builtin"))
    freed = [c for p in processes for c in p.slow + p.torn_calls if c["kind"] == "free" and c["bytes"] == 8 * 0xFFFFF]
    assert freed and "munmap" in freed[0]["kernel_calls"], "sizes are kept up to 8 MiB"
    made = [c for p in processes for c in p.slow + p.torn_calls if c["kind"] == "malloc" and c["bytes"] == 50 << 20]
    assert not made or "mmap" in made[0]["kernel_calls"]


def test_a_call_torn_by_a_preemption_is_marked_and_kept_out_of_the_percentiles(program, slow):
    _, processes = timed(program, "torn", library=slow)
    torn = [c for p in processes for c in p.torn_calls]
    assert find(torn, 30003)["preemptions"] >= 1
    malloc = latency.kind_of(0, processes, PRECISE)
    assert malloc["torn"] >= 1 and malloc["worst_torn_ns"] >= 3e8 / 4 and malloc["worst_ns"] < malloc["worst_torn_ns"]


def test_nothing_inside_asks_for_memory(mortise_home):
    """What the layer calls of others is on this list, and none of it allocates."""
    done = subprocess.run(["nm", "-D", "-u", str(mortise_home / "libexec/mortise-latency.so")], capture_output=True, text=True, check=True)
    needed = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
    assert not needed & {"malloc", "calloc", "realloc", "free", "_Znwm", "fopen", "printf", "opendir"}
    assert not any(name.startswith(("_ZSt", "__cxa_throw", "_Unwind")) for name in needed)


def behind_the_layer(home, *words):
    inside = os.environ | {"LD_PRELOAD": str(home / "libexec/mortise-latency.so")}
    return subprocess.run(words, check=True, capture_output=True, env=inside, timeout=60)


@pytest.mark.parametrize("program", ["own_operators", "own_arrays"])
def test_a_programs_own_operators_serve_those_that_are_made_of_them(program):
    facts, processes = timed(ROOT / "build/tests/life" / program)
    assert facts["exit_status"] == 0 and calls(processes, "malloc") > 0


def test_a_programs_own_malloc_serves_reallocarray():
    """Its blocks came to the allocator behind the layer."""
    assert timed(ROOT / "build/tests/life/own_malloc")[0]["exit_status"] == 0


def test_a_plug_in_has_operators_that_the_program_has_not(mortise_home, tmp_path):
    """The program has basic ones in front of the layer's, and behind it there is nobody."""
    for code, name, flags in ((NARROW, "narrow", ["-rdynamic"]), (ARRAYS, "arrays.so", ["-shared", "-fPIC"])):
        (tmp_path / f"{name}.cpp").write_text(code)
        words = ["c++", "-O0", "-std=c++17", "-static-libstdc++", *flags, str(tmp_path / f"{name}.cpp"), "-o", str(tmp_path / name)]
        subprocess.run(words, check=True)
    behind_the_layer(mortise_home, tmp_path / "narrow", tmp_path / "arrays.so")


@pytest.mark.parametrize("own", ("OWN", "NONE"))
def test_no_operator_waits_for_the_loader(mortise_home, tmp_path, own):
    for code, name, flags in ((OPENER, "opener", [f"-D{own}", "-rdynamic", "-Wl,--no-as-needed"]), (WAITED_FOR, "waited_for.so", ["-shared", "-fPIC"])):
        (tmp_path / f"{name}.cpp").write_text(code)
        words = ["c++", "-O0", "-std=c++17", "-pthread", *flags, str(tmp_path / f"{name}.cpp"), "-o", str(tmp_path / name), "-ldl"]
        subprocess.run(words, check=True)
    behind_the_layer(mortise_home, tmp_path / "opener", tmp_path / "waited_for.so")


def test_a_plug_in_of_a_program_in_c_catches_what_operator_new_throws(mortise_home):
    words = [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).runs_out()", ROOT / "build/tests/life/libprogram-life-thrower.so"]
    alone = subprocess.run(words, check=True, capture_output=True)
    assert behind_the_layer(mortise_home, *words).stdout == alone.stdout


def test_operators_of_cpp_are_timed_as_the_program_called_them(tmp_path):
    (tmp_path / "operators.cpp").write_text(OPERATORS)
    subprocess.run(["c++", "-O0", "-g", "-std=c++17", str(tmp_path / "operators.cpp"), "-o", str(tmp_path / "operators")], check=True)
    facts, processes = timed(tmp_path / "operators")
    assert facts["exit_status"] == 0
    assert 6000 <= calls(processes, "malloc") < 7000 and 1000 <= calls(processes, "aligned") < 1010
    sites = {symbols.place(c["module"], c["offset"])["module"] for p in processes for c in p.slow}
    assert any(module.endswith("/operators") for module in sites), "the program, not libstdc++"


def test_aligned_operators_are_those_of_an_allocator_that_has_no_memalign(tmp_path):
    (tmp_path / "without.c").write_text(WITHOUT_MEMALIGN)
    (tmp_path / "aligned.cpp").write_text(ALIGNED)
    library = compile_c(tmp_path / "without.c", tmp_path / "without.so", "-shared", "-fPIC", "-fno-builtin")
    subprocess.run(["c++", "-O0", "-std=c++17", str(tmp_path / "aligned.cpp"), "-o", str(tmp_path / "aligned")], check=True)
    facts, processes = timed(tmp_path / "aligned", library=library)
    assert facts["exit_status"] == 0 and calls(processes, "aligned") == 1001


@pytest.mark.parametrize("words", (["bash", "-c", "echo a | cat; (echo b) & wait"], ["/usr/bin/python3", "-c", "import threading, json; print(1)"]))
def test_real_programs_say_the_same_behind_the_layer(words):
    plain = Launcher().run(Request(words, Arm("a", "shipped"))).stdout
    request = Request(words, Arm("a", "shipped"))
    _, processes = latency.run(Launcher(), request, PRECISE, 1)
    assert processes and calls(processes, "malloc") > 50
    request = Request(words, Arm("a", "shipped"), latency=PRECISE.variables(1, latency.Path("/nowhere/at/all")))
    assert Launcher().run(request).stdout == plain != b"", "and where nothing can be written"


def test_peers_are_timed_as_they_are(program):
    from mortise import peers

    for peer in peers.peers():
        facts, processes = timed(program, "all", 1000, library=peer.library)
        assert facts["exit_status"] == 0, peer
        assert peers.family(processes[0].serves) == peer.name and calls(processes, "aligned") >= 2000


def test_the_kernels_clock_serves_where_the_counter_cannot(program):
    clock = latency.Clock("clock_gettime", "", 1.0, 1.0, 1.0, 0)
    _, processes = timed(program, "pairs", 5000, clock=clock)
    assert counted(processes, "malloc") >= 5000
    assert 1 <= processes[0].ticks[0] / 5000 < 1e7, "nanoseconds"


def test_the_report_is_whole(cli, program, tmp_path):
    done = cli("latency", "--full", "--arms", "glibc,toy", "--json", str(tmp_path / "o.json"), "--", str(program), "all", "2000")
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("latency"))
    assert done.returncode == 0 and document["overhead_ns"] > 0 and document["clock"]["step_ns"] > 0
    for part in ("p99.9999", "every call is timed", "the layer adds", "in steps of", "steal", "page faults", "torn", "slowest calls", " of 1 thread in 1 process, "):
        assert part in done.stdout, part
    for arm in ("glibc", "toy"):
        kind = document["arms"][arm]["kinds"]["free"]
        assert sum(n for _, n in kind["histogram"]) + kind["torn"] == kind["timed"] == kind["calls"] >= 8000
        assert kind["percentiles_ns"]["0.5"] <= kind["percentiles_ns"]["0.999"] <= kind["worst_ns"]
        assert "0.999999" not in kind["percentiles_ns"], "of 8000 calls none is known to be one in a million"
    assert document["arms"]["toy"]["served_by"][0].endswith("libmortise-toy.so")


def test_the_page_draws_every_arm_on_a_logarithmic_axis(cli, browser, program, tmp_path):  # noqa: F811
    cli("latency", "--full", "--arms", "glibc,toy", "--html", str(tmp_path / "o.html"), "--", str(program), "pairs", "20000")
    opened = Opened(browser.new_context(offline=True).new_page(), str(tmp_path / "o.html"))
    assert opened.said == [] and len(opened.asked) == 1
    for kind in ("malloc", "free", "empty"):
        expect(opened.page.locator(f"#plot-{kind} .scatterlayer .trace"), kind).to_have_count(2)
        assert opened.page.evaluate(f"document.getElementById('plot-{kind}').layout.yaxis.type") == "log"
    assert opened.page.locator("#malloc tbody tr").count() == 2
    assert json.loads(opened.page.locator("#data").text_content())["schema"] == "mortise.latency/1"


def test_what_cannot_be_timed_is_refused_or_said(cli, program, static_program, tmp_path, foreign_toy):
    assert "statically linked" in cli.refused(3, "latency", "--", str(static_program))
    assert "no program to time" in cli.refused(2, "latency")
    assert "no file" in cli.refused(2, "latency", "--stdin", str(tmp_path / "none"), "--", str(program))
    done = cli("latency", "--arms", f"glibc,{foreign_toy}", "--", str(program))
    assert done.returncode == 1 and re.search(r"failed: malloc came from .*libc\.so\.6", done.stdout)


def test_a_load_that_failed_is_no_measurement(cli, tmp_path):
    """A misspelt client leaves a server at rest, whose few calls look like an answer."""
    served = ["--ready", "test -e {tmp}/up", "--load", "no-such-client", "--", "sh", "-c", "touch {tmp}/up; sleep 60 & wait"]
    done = cli("latency", "--full", "--arms", "glibc", *served)
    assert done.returncode == 1, done.stdout
    assert re.search("glibc: failed: the load ended with status 127: .*no-such-client: not found", done.stdout), done.stdout


def test_who_is_ended_by_a_signal_is_told_of_on_a_line_of_its_own(cli, program, tmp_path):
    """Percentiles up to a crash look like those of the whole run."""
    done = cli("latency", "--full", "--arms", "glibc", "--json", str(tmp_path / "o.json"), "--", str(program), "killed", "2000")
    assert done.returncode == 1 and "\nglibc: was ended by SIGKILL: its figures are of the calls until then\n" in done.stdout
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("latency"))
    assert document["arms"]["glibc"]["killed_by"] == ["SIGKILL"] and "ended with" not in done.stdout
    served = ["--ready", "test -e {tmp}/up", "--load", "true", "--", "sh", "-c", "touch {tmp}/up; sleep 60 & wait"]
    assert cli("latency", "--arms", "glibc", *served).returncode == 0, "whose end by SIGTERM was asked for"


def test_who_goes_on_when_the_program_has_ended_is_told_of(cli, tmp_path):
    done = cli("latency", "--arms", "glibc", "--json", str(tmp_path / "o.json"), "--", "sh", "-c", "setsid sleep 600 & sleep 0.1")
    assert done.returncode == 0 and "\nglibc: 1 process went on when the program had ended, and no figure holds" in done.stdout
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("latency"))
    assert document["arms"]["glibc"]["left_behind"] == 1


def test_percentiles_of_a_wrapper_are_not_taken_for_those_of_what_it_starts(cli, churn, tmp_path):
    """The layer goes the way of LD_PRELOAD: it is not in a program whose environment was cleared."""
    done = cli("latency", "--arms", "glibc", "--", "env", "-i", churn, "2000000")
    assert done.returncode == 1
    assert re.search(rf"glibc: failed: no call came by of what does the work: \d+ % of the CPU time is that of {churn}, where LD_PRELOAD", done.stdout), done.stdout
    both = f"{churn} 1000000; env -i {churn} 1000000; exit 0"
    done = cli("latency", "--arms", "glibc", "--json", str(tmp_path / "o.json"), "--", "sh", "-c", both)
    assert done.returncode == 0
    assert re.search(rf"\nglibc: \d+ % of the CPU time had no arm's malloc, most of it that of {churn}, where", done.stdout), done.stdout
    document = json.loads((tmp_path / "o.json").read_text())
    jsonschema.validate(document, schema("latency"))
    assert 0.1 < document["arms"]["glibc"]["unreached"]["cpu_share"] < 0.9


@pytest.mark.parametrize("size", (0, 1 << 20))
def test_a_process_that_was_ended_before_it_could_count_is_none(tmp_path, size):
    (tmp_path / "calls.1").write_bytes(bytes(size))
    assert latency_file.read(tmp_path / "calls.1") is None


@pytest.mark.parametrize("disk, is_measured", (("64M", True), ("400k", False)))
def test_where_memory_for_counts_is_short_nothing_ends_by_a_signal(cli, program, disk, is_measured):
    """A container has 64 MiB in /dev/shm or less. Beyond it, a page of a file that is touched is a SIGBUS, in the program and in what reads it."""
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("nobody may mount anything here")
    mount = f"mount -t tmpfs -o size=400k none /dev/shm && mkdir /dev/shm/t && mount -t tmpfs -o size={disk} none /dev/shm/t && TMPDIR=/dev/shm/t exec \"$@\""
    words = [sys.executable, ROOT / "cli", "latency", "--arms", "glibc", "--", "sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do {program} pairs 1000 || exit 9; done"]
    done = subprocess.run([*inside, "sh", "-c", mount, "sh", *words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    if is_measured:
        assert done.returncode == 0 and re.search("calls of 9 threads in 9 processes", done.stdout), done.stdout + done.stderr
    else:
        assert done.returncode == 1 and "'glibc' left no room in '/dev/shm/t', where " in done.stdout, done.stdout + done.stderr


def test_a_crash_before_the_first_call_is_told_with_its_signal(cli, tmp_path):
    (tmp_path / "crash.c").write_text("#include <signal.h>\nint main(void) { return raise(SIGSEGV); }\n")
    done = cli("latency", "--arms", "glibc", "--", str(compile_c(tmp_path / "crash.c", tmp_path / "crash")))
    assert done.returncode == 1
    assert "failed: no call came by: the program took no malloc from the loader, and was ended by SIGSEGV" in done.stdout


def test_percentiles_are_told_only_where_calls_lie_above_them():
    histogram = [[10.0, 990], [1000.0, 9], [5000.0, 1]]
    assert latency.percentiles(histogram, 4200.0) == {"0.5": 10.0, "0.9": 10.0, "0.99": 10.0, "0.999": 1000.0}
    assert latency.percentiles([], 0.0) == {}
    assert [latency_file.floor(b, 16) for b in (0, 31, 32, 33, 48)] == [0, 31, 32, 34, 64]


def test_causes_are_named_the_weightiest_first():
    nothing = {"preemptions": 0, "kernel_calls": [], "waits": 0, "major_faults": 0, "minor_faults": 0}
    assert latency.cause(nothing) == "none seen"
    assert latency.cause(nothing | {"minor_faults": 3, "kernel_calls": ["mmap"]}) == "system call (mmap), 3 page faults"
    assert latency.cause(nothing | {"waits": 1, "preemptions": 1}) == "preemption, contention (it waited)"
    assert latency.cause(nothing | {"kernel_calls": ["sched_yield"]}) == "contention (it yielded)"


def test_a_counter_that_cannot_be_trusted_is_not(monkeypatch):
    facts = {"ticks_per_s": 2e9, "step_ticks": 2, "empty_ticks": 20, "backwards": 0}
    monkeypatch.setattr(latency, "helper_says", lambda *_, **__: json.dumps(facts | {"backwards": 3}))
    found = latency.clock()
    assert found.source == "clock_gettime" and "backwards" in found.why and found.ns_per_tick == 1.0
    assert found.variables(1, latency.Path("x"))["MORTISE_LATENCY_CLOCK"] == "clock_gettime"
    assert os.environ.get("MORTISE_LATENCY_CLOCK") is None
