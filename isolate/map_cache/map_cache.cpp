// map_cache.cpp: libmortise-mapcache.so, a cache of unmapped memory for ordinary threads, preloaded.
//
// What isolation gains for programs that map and unmap all the time is mostly what this gains without isolation: the
// baseline to beat. Only whole anonymous private mappings that were asked for without wishes are kept; anything else
// goes to the kernel. A program that reads memory after unmapping it is not caught here.
#include "mortise/cache/map_cache.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <sys/mman.h>
#include <sys/types.h>

#include "mortise/os/syscall.hpp"
#include "mortise/sync/futex_lock.hpp"

#define MORTISE_MAPCACHE_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using Mapping = mortise::MapCache<>::Mapping;

/// The plain mappings that live, by their low end; open addressing. When it is full, further ones are not cached.
class Plain {
 public:
  void add(Mapping m) noexcept {
    mortise::Held held(lock_);
    for (std::size_t i = 0, at = place(m.low); i < kProbes; ++i, at = (at + 1) % kPlaces)
      if (table_[at].bytes == 0) {
        table_[at] = m;
        return;
      }
  }
  /// Takes out the mapping that is exactly this one. False when it is not known, or only part of one.
  bool remove(Mapping m) noexcept {
    mortise::Held held(lock_);
    for (std::size_t i = 0, at = place(m.low); i < kProbes; ++i, at = (at + 1) % kPlaces)
      if (table_[at].low == m.low && table_[at].bytes == m.bytes) {
        table_[at] = {};
        return true;
      }
    return false;
  }
  /// Forgets every mapping that [low, low + bytes) touches: it is not plain any more.
  void forget(std::uintptr_t low, std::size_t bytes) noexcept {
    mortise::Held held(lock_);
    for (Mapping& m : table_)
      if (m.bytes && m.low < low + bytes && low < m.low + m.bytes) m = {};
  }

 private:
  static constexpr std::size_t kPlaces = 1u << 14, kProbes = 64;
  static std::size_t place(std::uintptr_t low) noexcept { return (low >> 12) * 0x9e3779b97f4a7c15ull >> 50; }
  mortise::FutexLock lock_;
  Mapping table_[kPlaces]{};
};
constinit Plain plain;

/// Threads take turns on the shards, so that they seldom meet.
struct alignas(64) Shard {
  mortise::FutexLock lock;
  mortise::MapCache<> cache;
};
constexpr unsigned kShards = 16;
constinit Shard shards[kShards];
constinit unsigned threads_met = 0;
[[gnu::tls_model("initial-exec")]] thread_local unsigned own_shard = 0;  // 0: not met yet

Shard& shard() noexcept {
  if (!own_shard) own_shard = __atomic_fetch_add(&threads_met, 1, __ATOMIC_RELAXED) % kShards + 1;
  return shards[own_shard - 1];
}

/// The program uses [low, low + bytes) otherwise from now on, or unmaps it once more: nothing of it is plain, and what is kept of it goes.
void forget(std::uintptr_t low, std::size_t bytes) noexcept {
  plain.forget(low, bytes);
  for (Shard& s : shards)
    for (Mapping kept;;) {
      s.lock.lock();
      kept = s.cache.take_touching(low, bytes);
      s.lock.unlock();
      if (!kept) break;
      mortise::os::syscall(SYS_munmap, kept.low, kept.bytes);
    }
}

std::size_t whole_pages(std::size_t bytes) noexcept { return (bytes + 4095) & ~std::size_t{4095}; }
std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

long result_or_errno(long result) noexcept {
  if (static_cast<unsigned long>(result) <= -4096ul) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

MORTISE_MAPCACHE_EXPORT void* mmap(void* where, std::size_t bytes, int protection, int flags, int fd,
                                   off_t offset) noexcept {
  const bool is_plain = !where && protection == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS) &&
                        bytes && bytes <= mortise::MapCache<>::kMappingBytesMax;
  if (flags & MAP_FIXED) forget(address_of(where), bytes);
  if (is_plain) {
    Shard& s = shard();
    s.lock.lock();
    const Mapping m = s.cache.take(whole_pages(bytes));
    s.lock.unlock();
    if (m) {
      plain.add(m);
      return std::memset(reinterpret_cast<void*>(m.low), 0, m.bytes);
    }
  }
  const long result = result_or_errno(mortise::os::syscall(SYS_mmap, where, bytes, protection, flags, fd, offset));
  if (is_plain && result != -1) plain.add({static_cast<std::uintptr_t>(result), whole_pages(bytes)});
  return reinterpret_cast<void*>(result);
}
MORTISE_MAPCACHE_EXPORT void* mmap64(void* where, std::size_t bytes, int protection, int flags, int fd,
                                     off_t offset) noexcept {
  return mmap(where, bytes, protection, flags, fd, offset);
}

MORTISE_MAPCACHE_EXPORT int munmap(void* low, std::size_t bytes) noexcept {
  Mapping m{address_of(low), whole_pages(bytes)};
  if (plain.remove(m)) {
    Shard& s = shard();
    s.lock.lock();
    m = s.cache.put(m);
    s.lock.unlock();
    if (!m) return 0;
  } else {
    forget(m.low, m.bytes);
  }
  return static_cast<int>(result_or_errno(mortise::os::syscall(SYS_munmap, m.low, m.bytes)));
}

MORTISE_MAPCACHE_EXPORT int mprotect(void* low, std::size_t bytes, int protection) noexcept {
  plain.forget(address_of(low), bytes);
  return static_cast<int>(result_or_errno(mortise::os::syscall(SYS_mprotect, low, bytes, protection)));
}

MORTISE_MAPCACHE_EXPORT int madvise(void* low, std::size_t bytes, int advice) noexcept {
  if (advice != MADV_DONTNEED && advice != MADV_FREE) plain.forget(address_of(low), bytes);
  return static_cast<int>(result_or_errno(mortise::os::syscall(SYS_madvise, low, bytes, advice)));
}

MORTISE_MAPCACHE_EXPORT void* mremap(void* low, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept {
  void* target = nullptr;
  if (flags & MREMAP_FIXED) {
    va_list rest;
    va_start(rest, flags);
    target = va_arg(rest, void*);
    va_end(rest);
    forget(address_of(target), new_bytes);
  }
  plain.forget(address_of(low), old_bytes);
  return reinterpret_cast<void*>(
      result_or_errno(mortise::os::syscall(SYS_mremap, low, old_bytes, new_bytes, flags, target)));
}
