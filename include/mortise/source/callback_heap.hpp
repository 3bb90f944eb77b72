// Memory from two functions of the user's: for memory that only the program knows how to get - shared, pinned, of a device, of a node.
//
//   allocate ─► take(context, bytes, align) ─► a pointer, or null        release ─► give(context, pointer, bytes)
//
// Blocks may lie anywhere, so PageIndex cannot stand on it; SizedHeader can.
// Progress: as the functions. Placement: a source; stands at the bottom; told its functions before first use.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"

namespace mortise {

/// The functions and what they are given. `take`: at least `bytes`, aligned to `align`, a power of two; null without memory; need not be
/// zeroed. `give`: takes back what `take` gave, with the same size; null where memory is never taken back.
struct Callbacks {
  void* (*take)(void* context, std::size_t bytes, std::size_t align) = nullptr;
  void (*give)(void* context, void* at, std::size_t bytes) = nullptr;
  void* context = nullptr;
};

/// Thread-safe when the functions are. Errors: an empty block when `take` gives null, and before `use`.
class CallbackHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "CallbackHeap";
  static constexpr const char* kWhat = "blocks from a pair of functions of the user's";
  static constexpr bool kToldByProgram = true;  ///< refused in a library that nobody tells
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  constexpr CallbackHeap() noexcept = default;
  constexpr explicit CallbackHeap(Callbacks callbacks) noexcept : callbacks_(callbacks) {}

  /// Says what the functions are. Once, before the first request, by one thread.
  void use(Callbacks callbacks) noexcept { callbacks_ = callbacks; }

  Block allocate(Thread&, Request r) noexcept {
    const std::size_t bytes = r.size ? r.size : 1;
    if (!callbacks_.take || bytes > PTRDIFF_MAX || r.align > PTRDIFF_MAX / 2) return {};
    auto* const p = static_cast<std::byte*>(callbacks_.take(callbacks_.context, bytes, r.align));
    if (!p) return {};
    MORTISE_CHECK(is_aligned(p, r.align), Fault::heap_inconsistent, Block(p, bytes));
    if (r.zeroed) std::memset(p, 0, bytes);
    return {p, bytes};
  }
  void release(Thread&, Block b) noexcept {
    if (callbacks_.give) callbacks_.give(callbacks_.context, b.ptr, b.size);
  }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept {
    Thread t;
    return allocate(t, {.size = bytes, .align = 64, .zeroed = true}).ptr;
  }

 private:
  Callbacks callbacks_;
};

}  // namespace mortise
