// The trace of `mortise compare`: preloaded in one run that is never timed, it stands in front of whatever allocator
// the program has and counts what the program asks for: sizes, lifetimes, frees by another thread than the maker's,
// alignment, reallocation. At the end of each process it writes one JSON object to MORTISE_TRACE with the process id
// appended. Lifetimes are counted in allocations: a block of age 100 saw a hundred others made while it lived.
//
//   malloc -> the real malloc -> note: one spin lock, one entry in a table of live blocks (open addressing)
//   free   -> drop: the entry is found, its age counted, taken out -> the real free
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { kBuckets = 48, kTableBits = 22, kEarlyBytes = 1 << 16 };
static const size_t kTableSize = (size_t)1 << kTableBits;
static const size_t kTableFull = ((size_t)1 << kTableBits) / 4 * 3;

struct Entry {
  uintptr_t block;  // 0: free
  uint64_t birth;
  size_t bytes;
  uint32_t maker;
};

static struct {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
} real;

static struct {
  uint64_t allocations, frees, cross_thread, aligned, zeroed, resized, moved, untracked;
  uint64_t sizes[kBuckets], bytes[kBuckets], ages[kBuckets];
  uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
} counts;

static struct Entry* table;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static _Atomic uint32_t threads;
static __thread uint32_t me __attribute__((tls_model("initial-exec")));
static char early[kEarlyBytes] __attribute__((aligned(16)));  // serves dlsym before the real functions are known
static size_t early_used;

static void lock(void) {
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
}
static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static bool is_early(const void* block) {
  return (const char*)block >= early && (const char*)block < early + kEarlyBytes;
}

static void* early_block(size_t bytes) {
  size_t rounded = (bytes + 15) & ~(size_t)15;
  if (early_used + rounded > kEarlyBytes) return NULL;
  void* block = early + early_used;
  early_used += rounded;
  return block;
}

static int bucket(uint64_t value) {
  return value == 0 ? 0 : 64 - __builtin_clzll(value) > kBuckets - 1 ? kBuckets - 1 : 64 - __builtin_clzll(value);
}

static size_t home_of(uintptr_t block) { return (size_t)((block * 0x9E3779B97F4A7C15ULL) >> (64 - kTableBits)); }

static void note(void* block, size_t bytes) {
  if (block == NULL || table == NULL) return;
  if (me == 0) me = atomic_fetch_add(&threads, 1) + 1;
  lock();
  counts.allocations++;
  counts.sizes[bucket(bytes)]++;
  counts.bytes[bucket(bytes)] += bytes;
  counts.live_bytes += bytes;
  counts.live_blocks++;
  if (counts.live_bytes > counts.peak_bytes) counts.peak_bytes = counts.live_bytes;
  if (counts.live_blocks > counts.peak_blocks) counts.peak_blocks = counts.live_blocks;
  if (counts.live_blocks - counts.untracked < kTableFull) {
    size_t place = home_of((uintptr_t)block);
    while (table[place].block != 0) place = (place + 1) & (kTableSize - 1);
    table[place] = (struct Entry){(uintptr_t)block, counts.allocations, bytes, me};
  } else {
    counts.untracked++;
  }
  unlock();
}

// Takes an entry out and closes the gap, so that searches need no tombstones.
static void take_out(size_t place) {
  size_t gap = place;
  for (size_t next = (gap + 1) & (kTableSize - 1); table[next].block != 0; next = (next + 1) & (kTableSize - 1)) {
    size_t home = home_of(table[next].block);
    if (((next - home) & (kTableSize - 1)) >= ((next - gap) & (kTableSize - 1))) {
      table[gap] = table[next];
      gap = next;
    }
  }
  table[gap].block = 0;
}

// Gives the size that the block had, or 0 when it is not known.
static size_t drop(void* block) {
  if (block == NULL || table == NULL) return 0;
  if (me == 0) me = atomic_fetch_add(&threads, 1) + 1;
  size_t held = 0;
  lock();
  size_t place = home_of((uintptr_t)block);
  while (table[place].block != 0 && table[place].block != (uintptr_t)block) place = (place + 1) & (kTableSize - 1);
  if (table[place].block != 0) {
    counts.frees++;
    counts.ages[bucket(counts.allocations - table[place].birth)]++;
    counts.cross_thread += table[place].maker != me;
    held = table[place].bytes;
    counts.live_bytes -= held;
    counts.live_blocks--;
    take_out(place);
  }
  unlock();
  return held;
}

static void find_real(void) {
  if (real.malloc != NULL) return;
  static bool finding;
  if (finding) return;  // dlsym itself asks for memory: it is served early
  finding = true;
  real.calloc = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
  real.realloc = (void* (*)(void*, size_t))dlsym(RTLD_NEXT, "realloc");
  real.free = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  real.posix_memalign = (int (*)(void**, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  real.aligned_alloc = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  real.memalign = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
  real.malloc = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

EXPORT void* malloc(size_t bytes) {
  find_real();
  if (real.malloc == NULL) return early_block(bytes);
  void* block = real.malloc(bytes);
  note(block, bytes);
  return block;
}

EXPORT void* calloc(size_t count, size_t each) {
  find_real();
  if (real.malloc == NULL) return early_block(count * each);  // static memory is zero
  void* block = real.calloc(count, each);
  note(block, count * each);
  if (block != NULL && table != NULL) __atomic_fetch_add(&counts.zeroed, 1, __ATOMIC_RELAXED);
  return block;
}

EXPORT void free(void* block) {
  int kept = errno;
  if (is_early(block)) return;
  find_real();
  drop(block);
  if (real.free != NULL) real.free(block);
  errno = kept;
}

EXPORT void* realloc(void* block, size_t bytes) {
  find_real();
  if (is_early(block) || real.malloc == NULL) {
    void* fresh = real.malloc == NULL ? early_block(bytes) : malloc(bytes);
    size_t there = block == NULL ? 0 : (size_t)(early + kEarlyBytes - (char*)block);
    if (fresh != NULL && block != NULL) memcpy(fresh, block, bytes < there ? bytes : there);
    return fresh;
  }
  if (block == NULL) return malloc(bytes);
  size_t held = drop(block);  // before the real one: from then on another thread may be given this address
  void* fresh = real.realloc(block, bytes);
  if (fresh == NULL && bytes != 0) note(block, held);
  if (fresh != NULL) note(fresh, bytes);
  if (fresh != NULL) {
    __atomic_fetch_add(&counts.resized, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts.moved, fresh != block, __ATOMIC_RELAXED);
  }
  return fresh;
}

static void* aligned(void* block, size_t bytes) {
  note(block, bytes);
  if (block != NULL) __atomic_fetch_add(&counts.aligned, 1, __ATOMIC_RELAXED);
  return block;
}

EXPORT int posix_memalign(void** target, size_t alignment, size_t bytes) {
  find_real();
  int failed = real.posix_memalign(target, alignment, bytes);
  if (failed == 0) aligned(*target, bytes);
  return failed;
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  find_real();
  return aligned(real.aligned_alloc(alignment, bytes), bytes);
}

EXPORT void* memalign(size_t alignment, size_t bytes) {
  find_real();
  return aligned(real.memalign(alignment, bytes), bytes);
}

static void child_begins(void) { unlock(); }

__attribute__((constructor)) static void begin(void) {
  if (getenv("MORTISE_TRACE") == NULL) return;
  find_real();
  void* pages = mmap(NULL, kTableSize * sizeof *table, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  pthread_atfork(lock, unlock, child_begins);
  table = pages;
}

static void write_list(int file, const char* name, const uint64_t* values) {
  dprintf(file, ",\"%s\":[", name);
  for (int i = 0; i < kBuckets; i++) dprintf(file, "%s%llu", i ? "," : "", (unsigned long long)values[i]);
  dprintf(file, "]");
}

__attribute__((destructor)) static void end(void) {
  const char* prefix = getenv("MORTISE_TRACE");
  if (prefix == NULL || table == NULL) return;
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
  lock();
  struct Entry* counted = table;
  table = NULL;  // what the writing itself asks for is not the program's
  unlock();
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || counted == NULL) return;
  struct {
    const char* name;
    uint64_t value;
  } numbers[] = {{"allocations", counts.allocations},
                 {"frees", counts.frees},
                 {"cross_thread", counts.cross_thread},
                 {"aligned", counts.aligned},
                 {"zeroed", counts.zeroed},
                 {"resized", counts.resized},
                 {"moved", counts.moved},
                 {"untracked", counts.untracked},
                 {"peak_bytes", counts.peak_bytes},
                 {"peak_blocks", counts.peak_blocks},
                 {"left_blocks", counts.live_blocks},
                 {"threads", threads}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    dprintf(file, "%c\"%s\":%llu", i ? ',' : '{', numbers[i].name, (unsigned long long)numbers[i].value);
  write_list(file, "sizes", counts.sizes);
  write_list(file, "size_bytes", counts.bytes);
  write_list(file, "ages", counts.ages);
  dprintf(file, "}\n");
  close(file);
}
