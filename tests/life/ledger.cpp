// Stands in front of an allocator and keeps count, beside the heap, of the pages that the blocks of a program lie in. Whoever maps the
// file that LEDGER names reads from it, while the program sleeps: blocks out, the bytes asked for, and pages that hold any of them.
// All its memory is shared, so that none of it is among the program's own pages.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <type_traits>

namespace {

constexpr size_t kPage = 4096, kPlaces = size_t{1} << 25, kPages = size_t{1} << 35;

struct Totals {
  uint64_t blocks, bytes, pages;
};
struct Entry {
  uintptr_t block;
  size_t bytes;
};

Totals* totals;
Entry* entries;        // open addressing, no gaps between a block's place and where it is
uint16_t* blocks_in;   // by page number; a page of 16-byte blocks has 256
int lock = 0;

struct Next {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void (*free)(void*);
} next;
alignas(16) char early[64 << 10];  // what the loader asks for while we ask it
size_t early_used = 0;

void fail(const char* what) {
  dprintf(2, "ledger: %s\n", what);
  _exit(99);
}

void* shared(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no memory for the tables");
  return p;
}

bool starting = false;
[[gnu::constructor(101)]] void start() {
  if (totals || starting) return;
  starting = true;
  const char* const path = getenv("LEDGER");
  const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void* const file = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (file == MAP_FAILED) fail("LEDGER names no file of a page");
  close(fd);
  entries = static_cast<Entry*>(shared(kPlaces * sizeof *entries));
  blocks_in = static_cast<uint16_t*>(shared(kPages * sizeof *blocks_in));
  const auto find = [](auto& f, const char* name) { f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(RTLD_NEXT, name)); };
  find(next.malloc, "malloc");
  find(next.calloc, "calloc");
  find(next.realloc, "realloc");
  find(next.aligned_alloc, "aligned_alloc");
  find(next.free, "free");
  totals = static_cast<Totals*>(file);
}
bool is_ready() {
  if (!totals) [[unlikely]] start();
  return totals;
}

struct Locked {
  Locked() {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~Locked() { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }
};

size_t place_of(uintptr_t block) { return (block >> 4) * 0x9e3779b97f4a7c15u >> 39; }
static_assert(kPlaces == size_t{1} << (64 - 39));

template <class Each> void each_page(const Entry& e, Each each) {
  const uintptr_t last = (e.block + (e.bytes ? e.bytes : 1) - 1) / kPage;
  for (uintptr_t page = e.block / kPage; page <= last; ++page) each(blocks_in[page]);
}
void* note(void* p, size_t bytes) {
  if (!p) return p;
  const Entry e{reinterpret_cast<uintptr_t>(p), bytes};
  const Locked locked;
  size_t at = place_of(e.block);
  while (entries[at].block) at = (at + 1) % kPlaces;
  entries[at] = e;
  if (++totals->blocks > kPlaces / 4 * 3) fail("more blocks than the ledger has room for");
  totals->bytes += bytes;
  each_page(e, [](uint16_t& n) { totals->pages += n++ == 0; });
  return p;
}
/// Forgets the block at `p`; its size, or -1 when it is none of ours.
size_t forget(void* p) {
  const auto block = reinterpret_cast<uintptr_t>(p);
  const Locked locked;
  size_t at = place_of(block);
  for (; entries[at].block != block; at = (at + 1) % kPlaces)
    if (!entries[at].block) return ~size_t{0};
  const Entry e = entries[at];
  for (size_t gap = at, look = (at + 1) % kPlaces;; look = (look + 1) % kPlaces) {  // what follows moves up, unless it is at its place
    if (!entries[look].block) {
      entries[gap].block = 0;
      break;
    }
    if ((look - place_of(entries[look].block)) % kPlaces < (look - gap) % kPlaces) continue;
    entries[gap] = entries[look];
    gap = look;
  }
  totals->blocks -= 1;
  totals->bytes -= e.bytes;
  each_page(e, [](uint16_t& n) { totals->pages -= --n == 0; });
  return e.bytes;
}

bool is_early(const void* p) { return p >= early && p < early + sizeof early; }
void* take_early(size_t n) {
  n = (n + 15) / 16 * 16;
  if (n > sizeof early - early_used) fail("the loader asks for much");
  early_used += n;
  return early + early_used - n;
}

}  // namespace

extern "C" {

void* malloc(size_t n) noexcept { return is_ready() ? note(next.malloc(n), n) : take_early(n); }
void* calloc(size_t n, size_t size) noexcept { return is_ready() ? note(next.calloc(n, size), n * size) : take_early(n * size); }
void* aligned_alloc(size_t align, size_t n) noexcept { return is_ready() ? note(next.aligned_alloc(align, n), n) : nullptr; }
void* memalign(size_t align, size_t n) noexcept { return aligned_alloc(align, n); }
int posix_memalign(void** out, size_t align, size_t n) noexcept {
  void* const p = aligned_alloc(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) noexcept {
  if (!p || is_early(p)) return;
  forget(p);
  next.free(p);
}
void* realloc(void* p, size_t n) noexcept {
  if (!p) return malloc(n);
  if (is_early(p)) return memcpy(malloc(n), p, n);
  const size_t before = forget(p);
  void* const moved = next.realloc(p, n);
  if (moved) return note(moved, n);
  return n && before != ~size_t{0} ? (note(p, before), nullptr) : nullptr;
}
void* reallocarray(void* p, size_t n, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) return errno = ENOMEM, nullptr;
  return realloc(p, bytes);
}

}  // extern "C"
