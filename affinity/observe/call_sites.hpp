// Calls that carry their pool: the article's answer to "which pool?", on request. Off by default, as it writes to code.
//
//   before   call malloc@plt                        after   call stub ──► mov pool, %esi; jmp malloc_in_pool
//
// Only a direct call of malloc through the module's own table is touched, by one aligned store of its four bytes of distance, so
// that another thread runs the old call or the new one. The code is writable for that moment only, yet it is; systems that
// forbid this refuse, and the call stays as it was. Calls through pointers, jumps at a function's end, calls whose distance lies
// across a line and calls in code that the program keeps writable are left alone: the cache of ways serves them as before. Nothing
// is ever put back: code that is unloaded takes its calls with it, and a pool that a stub names stays valid.
//
// Under the analysis lock. Source: [Wang10], parameter of the call site.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/observe/modules.hpp"

namespace mortise::affinity {

class CallSites {
 public:
  using Entry = void* (*)(std::size_t, std::uint32_t) noexcept;

  /// From now on the call that returns to `back`, in `m`, says `pool`. False if it was left alone.
  bool patch(const Module& m, std::uintptr_t back, std::uint32_t pool, Entry entry) noexcept;
  std::uint32_t patched() const noexcept { return patched_; }

 private:
  /// A page of stubs that code nearby can call.
  struct Shelf {
    std::uint8_t* page;
    std::uint32_t used;
  };
  static constexpr std::size_t kPage = 4096, kStub = 16, kShelves = 64;

  std::uint8_t* stub_near(const Module& m, std::uintptr_t call, Entry entry) noexcept;

  Shelf shelf_[kShelves] = {};
  std::uint32_t shelves_ = 0, patched_ = 0;
};

}  // namespace mortise::affinity
