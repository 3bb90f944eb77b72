// One reading of the heap: its sums, its size classes, its caches, and how much of it is resident.
#pragma once

#include <string.h>

#include "abi/heap.hpp"
#include "abi/json.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::abi {

/// The tables are too large for the stack of a thread, so a snapshot lies in pages of its own while it is looked at.
class Snapshot {
 public:
  static constexpr unsigned kClassesMax = 256;
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  /// Reads `h`. Numbers of layers that rest are exact; others were true at some moment of the reading.
  template <class H>
  explicit Snapshot(H& h) noexcept : tables_(reinterpret_cast<Tables*>(os::map(sizeof(Tables)))) {
    read_whole(usage, [this, &h](Usage& u) {
      if (tables_) {
        memset(static_cast<void*>(tables_), 0, sizeof *tables_);
        u.classes = tables_->classes;
        u.classes_max = kClassesMax;
        u.caches = tables_->caches;
        u.caches_max = os::kCpusMax;
      }
      tell_below(h, u);
    });
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
