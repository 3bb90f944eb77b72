// Memory from libc's malloc: for programs that keep their allocator and want a layer over it, and for tests.
//
// Blocks lie anywhere, so PageIndex cannot stand on it; SizedHeader can.
// Progress: as libc's malloc (blocking). Placement: a source; stands at the bottom; never in a library that defines malloc itself.
#pragma once

#include <stdlib.h>

#include "mortise/core/core.hpp"

namespace mortise {

/// Thread-safe. Errors: an empty block when malloc gives null.
class MallocHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "MallocHeap";
  static constexpr const char* kWhat = "blocks from libc's malloc";
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr bool kCallsMalloc = true;  ///< refused under a library that replaces it

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  Block allocate(Thread&, Request r) noexcept {
    const std::size_t bytes = r.size ? r.size : 1;
    if (bytes > PTRDIFF_MAX || r.align > PTRDIFF_MAX / 2) return {};
    void* p = nullptr;
    if (r.align <= kMinAlign) {
      p = r.zeroed ? ::calloc(1, bytes) : ::malloc(bytes);
    } else {
      if (::posix_memalign(&p, r.align, bytes) != 0) return {};
      if (r.zeroed) __builtin_memset(p, 0, bytes);
    }
    return {static_cast<std::byte*>(p), p ? bytes : 0};
  }
  void release(Thread&, Block b) noexcept { ::free(b.ptr); }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept { return static_cast<std::byte*>(::calloc(1, bytes)); }
};

}  // namespace mortise
