// sites.cpp: libmortise-isolate-sites.so, which remembers where blocks were allocated (mortise threads --watch).
//
// It stands in front of whatever allocator the program has: forwards each call, and enters block, size and the caller's
// address into a table. The table is open addressing over the block's address, in this library's own zeroed memory,
// which isolated threads share like everything else. When it is nearly full, further blocks are forwarded but not
// remembered.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>

#define MORTISE_SITES_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Entry {
  std::uintptr_t address;  // of the block; 0 never used, 1 given back
  std::size_t bytes;
  void* site;

  std::atomic_ref<std::uintptr_t> block() noexcept { return std::atomic_ref(address); }
};

constexpr std::size_t kEntries = 1u << 20, kProbes = 64;
constinit Entry table[kEntries]{};

std::size_t place_of(std::uintptr_t block) { return (block >> 4) * 0x9e3779b97f4a7c15ull >> 44; }

void* remember(void* block, std::size_t bytes, void* site) {
  if (!block) return block;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  for (std::size_t i = 0, at = place_of(address); i < kProbes; ++i, at = (at + 1) % kEntries) {
    std::uintptr_t seen = table[at].block().load(std::memory_order_relaxed);
    if (seen > 1 && seen != address) continue;
    if (!table[at].block().compare_exchange_strong(seen, address)) continue;
    table[at].bytes = bytes;
    table[at].site = site;
    return block;
  }
  return block;
}

void forget(void* block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  for (std::size_t i = 0, at = place_of(address); i < kProbes; ++i, at = (at + 1) % kEntries) {
    const std::uintptr_t seen = table[at].block().load(std::memory_order_relaxed);
    if (seen == 0) return;
    if (seen == address) return table[at].block().store(1, std::memory_order_relaxed);
  }
}

struct Next {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
};
constinit Next next_allocator{};
constinit bool resolving = false;

// dlsym itself may allocate before the first answer is there: a little memory that is never given back.
constinit char early[64 << 10];
constinit std::size_t early_used = 0;

void* take_early(std::size_t bytes) {
  bytes = (bytes + 15) & ~std::size_t{15};
  if (bytes > sizeof early - early_used) return nullptr;
  void* p = early + early_used;
  early_used += bytes;
  return p;
}
bool is_early(const void* p) { return p >= early && p < early + sizeof early; }

template <class F>
void resolve(F& f, const char* name) {
  f = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// False while the allocator behind is being looked up.
bool ready() {
  if (next_allocator.free) [[likely]]
    return true;
  if (resolving) return false;
  resolving = true;
  resolve(next_allocator.malloc, "malloc");
  resolve(next_allocator.calloc, "calloc");
  resolve(next_allocator.realloc, "realloc");
  resolve(next_allocator.posix_memalign, "posix_memalign");
  resolve(next_allocator.aligned_alloc, "aligned_alloc");
  resolve(next_allocator.memalign, "memalign");
  resolve(next_allocator.free, "free");
  resolving = false;
  return true;
}

}  // namespace

MORTISE_SITES_EXPORT void* malloc(std::size_t bytes) {
  return ready() ? remember(next_allocator.malloc(bytes), bytes, __builtin_return_address(0)) : take_early(bytes);
}

MORTISE_SITES_EXPORT void* calloc(std::size_t count, std::size_t bytes) {
  if (!ready()) return take_early(count * bytes);
  return remember(next_allocator.calloc(count, bytes), count * bytes, __builtin_return_address(0));
}

MORTISE_SITES_EXPORT void free(void* block) {
  if (!block || is_early(block)) return;
  forget(block);
  if (ready()) next_allocator.free(block);
}

MORTISE_SITES_EXPORT void* realloc(void* block, std::size_t bytes) {
  void* const site = __builtin_return_address(0);
  if (is_early(block) || !ready()) {
    void* moved = malloc(bytes);
    if (moved && block) std::memcpy(moved, block, bytes < 4096 ? bytes : 4096);
    return moved;
  }
  void* const moved = next_allocator.realloc(block, bytes);
  if (block && (moved || bytes == 0)) forget(block);
  return remember(moved, bytes, site);
}

MORTISE_SITES_EXPORT int posix_memalign(void** out, std::size_t align, std::size_t bytes) {
  if (!ready()) return ENOMEM;
  const int error = next_allocator.posix_memalign(out, align, bytes);
  if (error == 0) remember(*out, bytes, __builtin_return_address(0));
  return error;
}

MORTISE_SITES_EXPORT void* aligned_alloc(std::size_t align, std::size_t bytes) {
  return ready() ? remember(next_allocator.aligned_alloc(align, bytes), bytes, __builtin_return_address(0)) : nullptr;
}

MORTISE_SITES_EXPORT void* memalign(std::size_t align, std::size_t bytes) {
  return ready() ? remember(next_allocator.memalign(align, bytes), bytes, __builtin_return_address(0)) : nullptr;
}

/// The block that holds `address`, its size and the caller that asked for it. O(table): for reports.
MORTISE_SITES_EXPORT bool mortise_watch_find(const void* address, void** block, unsigned long* bytes, void** site) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (Entry& e : table) {
    const std::uintptr_t start = e.block().load(std::memory_order_relaxed);
    if (start <= 1 || at < start || at >= start + e.bytes) continue;
    *block = reinterpret_cast<void*>(start);
    *bytes = e.bytes;
    *site = e.site;
    return true;
  }
  return false;
}
