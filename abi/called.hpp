// malloc and operator new for heaps that look at the caller (kReadsCalls): each in tail position, so that the stack is still as the
// program's call left it.
#pragma once

#include <string.h>

#include "abi/affinity.hpp"
#include "abi/heap.hpp"

namespace mortise::abi {

/// Jumped to where a wrapper calls, for heaps that look at the caller: the stack is still as the entry point found it.
template <class Miss, class H, bool kZeroed> [[gnu::noinline]] void* allocate_through(std::size_t size, std::size_t align,
                                                                                      typename H::Thread* t, std::uintptr_t goal) {
  const Request r{.size = size, .align = align, .site = call_site()};
  if (const Block b = static_cast<H&>(heap).allocate_through(*t, r, goal)) [[likely]] return kZeroed ? memset(b.ptr, 0, size) : b.ptr;
  return with_registers<Miss::kAtCall>(size, align, kZeroed);
}

/// At the program's call, for heaps that look at the caller.
template <class Miss, class H> MORTISE_HOT void* allocate_called(H& h, Request r) {
  if constexpr (H::kPassesAlone)
    if (h.passes(r)) {
      if (const Block b = h.pass(r)) [[likely]] return b.ptr;
      return with_registers<Miss::kAtCall>(r.size, r.align, r.zeroed);
    }
  if (typename H::Thread* const t = thread_if_ready(); t && !h.passes(r)) [[likely]] {
    if (const std::uintptr_t goal = h.goal_of(*t, r)) [[likely]] {
      if (H::leads_to_objects(goal)) [[likely]] {
        if (const Block b = h.take_from(*t, goal, r)) [[likely]] return b.ptr;
      } else if (H::leads_on(goal)) {
        return (r.zeroed ? allocate_through<Miss, H, true> : allocate_through<Miss, H, false>)(r.size, r.align, t, goal);
      } else if (const Block b = h.forward(*t, goal, r)) {
        return b.ptr;
      }
    }
  }
  return with_registers<Miss::kAtCall>(r.size, r.align, r.zeroed);
}

/// At a call that carries its pool; otherwise as if it did not, with the stack as the call left it.
template <class H> MORTISE_HOT void* allocate_in_pool(H& h, Request r, std::uint32_t pool) noexcept {
  if constexpr (kReadsCalls<H>) {
    if (typename H::Thread* const t = thread_if_ready()) [[likely]] {
      if (const std::uintptr_t goal = h.goal_in(*t, pool, r.size)) [[likely]]
        if (const Block b = h.take_from(*t, goal, r)) [[likely]] return b.ptr;
    }
  }
  return malloc(r.size);
}

}  // namespace mortise::abi
