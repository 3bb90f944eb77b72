// A source that is whatever malloc comes after ours in the program's search order: for layers over the system's own allocator.
//
// Every pointer that no layer above holds is its. Progress: as that malloc. Placement: a source; stands at the bottom, in a shared
// object that defines malloc (MallocHeap is for all others).
#pragma once

#include "abi/next.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// Thread-safe. Errors: an empty block when the next malloc gives null.
class NextHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "NextHeap";
  static constexpr const char* kWhat = "blocks from the malloc that comes next, usually libc's";
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  Block allocate(Thread&, Request r) noexcept {
    const std::size_t bytes = r.size ? r.size : 1;
    auto* const p = static_cast<std::byte*>(abi::next_allocate(bytes, r.align, r.zeroed));
    return {p, p ? bytes : 0};
  }
  void release(Thread&, Block b) noexcept { abi::next_free(b.ptr); }
  static constexpr bool holds(const std::byte*) noexcept { return true; }
  Block block_of(std::byte* p) noexcept { return {p, 0}; }
  Block measure(Block b) noexcept { return {b.ptr, abi::next_usable_size(b.ptr)}; }
  Block resize_by_moving(Thread&, Block b, std::size_t bytes) noexcept {
    auto* const p = static_cast<std::byte*>(abi::next_realloc(b.ptr, bytes));
    return {p, p ? bytes : 0};
  }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept {
    Held held(lock_);
    return meta_.take(bytes);
  }
  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

 private:
  FutexLock lock_;
  MetaArena meta_;
};

}  // namespace mortise
