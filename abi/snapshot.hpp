// One reading of the heap: its sums, its size classes, its caches, and how much of it is resident.
#pragma once

#include "abi/heap.hpp"
#include "abi/json.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::abi {

/// Layers are asked one after the other while blocks move between them: a difference may have come out below zero, a sum above the whole.
inline void settle(Usage& u) noexcept {
  const auto is_below_zero = [](std::size_t n) { return n > ~std::size_t{0} / 2; };
  u.live = is_below_zero(u.live) ? 0 : u.live > u.mapped ? u.mapped : u.live;
  u.large = is_below_zero(u.large) ? 0 : u.large > u.live ? u.live : u.large;
  for (unsigned c = 0; u.classes && c < u.classes_max; ++c)
    if (is_below_zero(u.classes[c].live)) u.classes[c].live = 0;
}

/// The tables are too large for the stack of a thread, so a snapshot lies in pages of its own while it is looked at.
class Snapshot {
 public:
  static constexpr unsigned kClassesMax = 256;
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  /// Reads `h`. Numbers of layers that rest are exact; others were true at some moment of the reading.
  template <class H>
  explicit Snapshot(H& h) noexcept : tables_(reinterpret_cast<Tables*>(os::map(sizeof(Tables)))) {
    if (tables_) {
      usage.classes = tables_->classes;
      usage.classes_max = kClassesMax;
      usage.caches = tables_->caches;
      usage.caches_max = os::kCpusMax;
    }
    tell_below(h, usage);
    settle(usage);
  }
  ~Snapshot() {
    if (tables_) os::unmap(reinterpret_cast<std::byte*>(tables_), sizeof(Tables));
  }
  Snapshot(const Snapshot&) = delete;

  Usage usage;

 private:
  struct Tables {
    ClassUsage classes[kClassesMax];
    CacheUsage caches[os::kCpusMax];
  };
  Tables* tables_;
};

/// Bytes of [from, from + bytes) that are in memory, by /proc/self/smaps; Snapshot::kUnknown without it. Takes as long as
/// the kernel takes to walk the page tables of the process. (resident.cpp)
std::size_t resident_bytes(const std::byte* from, std::size_t bytes) noexcept;

/// The members of an object that say what `u` says. (snapshot.cpp)
void write_usage(Json& json, const Usage& u) noexcept;

/// Where a library has heaps that programs create, it says so: all of them as an array of objects, found at `there`. With
/// `is_copy` they are a private copy of another process's. (heaps/stats.cpp; null elsewhere)
[[gnu::weak, gnu::visibility("hidden")]] void write_heaps(Json& json, void* there, bool is_copy) noexcept;
[[gnu::weak, gnu::visibility("hidden")]] void* heaps_here() noexcept;

}  // namespace mortise::abi
