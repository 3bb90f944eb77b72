// One reading of the heap: its sums, its size classes, its caches, and how much of it is resident.
#pragma once

#include "abi/heap.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::abi {

/// The tables are too large for the stack of a thread, so a snapshot lies in pages of its own while it is looked at.
class Snapshot {
 public:
  static constexpr unsigned kClassesMax = 256;
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  /// Reads `h`. Numbers of layers that rest are exact; others were true at some moment of the reading.
  explicit Snapshot(Heap& h) noexcept : tables_(reinterpret_cast<Tables*>(os::map(sizeof(Tables)))) {
    if (tables_) {
      usage.classes = tables_->classes;
      usage.classes_max = kClassesMax;
      usage.caches = tables_->caches;
      usage.caches_max = os::kCpusMax;
    }
    tell_below(h, usage);
    // Layers are asked one after the other while blocks move between them: a difference may come out below zero.
    if (usage.live > usage.mapped) usage.live = 0;
    if (usage.large > usage.live) usage.large = usage.live;
    for (unsigned c = 0; c < usage.classes_max; ++c)
      if (usage.classes[c].live > usage.mapped) usage.classes[c].live = 0;
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

/// Writes `h` as JSON (schema mortise.stats/1). Null where `resident` is kUnknown. Returns the length of the whole text.
/// (snapshot.cpp)
std::size_t write_json(Snapshot& snapshot, const Events& events, std::size_t resident, char* out,
                       std::size_t capacity) noexcept;

}  // namespace mortise::abi
