// Who called: the return addresses on the stack of this thread, by the unwind tables that every program carries.
//
// libgcc's unwinder, linked in statically: it takes no memory and, from glibc 2.35 on, no lock (_dl_find_object). About 0.2 us a
// frame: for samples, not for every call.
#pragma once

#include <unwind.h>

#include <cstddef>
#include <cstdint>

namespace mortise::os {

/// Stacks that were walked before, a few at a time, so that a walk ends where it meets one of them.
///
///   now      malloc ─ f ─ g ─┐
///   before   malloc ─ h ─────┴─ k ─ m ─ main         the outer frames still hold the return addresses that they held: no need to
///                                                    look them up in tables again
///
/// Frames are the same when the stack pointer and the return address are; what lies outside them is compared word by word with the
/// stack. Where return addresses do not lie below their frames (x86-64 only) every walk is whole. `kMost` frames at most.
/// Any thread may ask at any time: a memory that another one uses is done without.
template <unsigned kMost> class StackMemory {
 public:
  /// Writes up to `most` return addresses to `out`, innermost first, the caller's own among them; returns how many.
  unsigned capture(std::uintptr_t* out, unsigned most) noexcept {
    Walk walk{.most = most < kMost ? most : kMost};
    Memory& memory = memory_[reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer()) / 64 % kMemories];
    if (kReturnsLieBelowFrames && !__atomic_exchange_n(&memory.is_taken, true, __ATOMIC_ACQUIRE)) walk.before = &memory;
    _Unwind_Backtrace(step, &walk);
    for (unsigned i = 0; i < walk.count; ++i) out[i] = walk.frame[i].address;
    if (walk.before) {
      for (unsigned i = 0; i < walk.count; ++i) memory.frame[i] = walk.frame[i];
      // A walk that was cut off does not say what lies outside it.
      memory.count = walk.count < walk.most ? walk.count : 0;
      __atomic_store_n(&memory.is_taken, false, __ATOMIC_RELEASE);
    }
    return walk.count;
  }
  /// In the child of a fork: whoever held a memory is not here.
  void reset() noexcept {
    for (Memory& m : memory_) m.is_taken = false;
  }

 private:
#ifdef __x86_64__
  static constexpr bool kReturnsLieBelowFrames = true;
#else
  static constexpr bool kReturnsLieBelowFrames = false;
#endif
  static constexpr unsigned kMemories = 16;
  static constexpr std::uintptr_t kFrameMax = 1 << 16;

  struct Frame {
    std::uintptr_t stack;    ///< the stack pointer in this frame, after the return
    std::uintptr_t address;  ///< to which was returned
  };
  struct Memory {
    bool is_taken = false;
    unsigned count = 0;
    Frame frame[kMost] = {};
  };
  struct Walk {
    unsigned count = 0, most = 0;
    Memory* before = nullptr;
    unsigned met = 0;  ///< frames of `before` that lie further in than this walk has come
    Frame frame[kMost];
  };

  static _Unwind_Reason_Code step(_Unwind_Context* context, void* to) noexcept {
    auto& w = *static_cast<Walk*>(to);
    const std::uintptr_t address = _Unwind_GetIP(context);
    if (!address || w.count == w.most) return _URC_END_OF_STACK;
    const Frame f{static_cast<std::uintptr_t>(_Unwind_GetCFA(context)), address};
    w.frame[w.count++] = f;
    if (!w.before) return _URC_NO_REASON;
    const Memory& m = *w.before;
    while (w.met < m.count && m.frame[w.met].stack < f.stack) ++w.met;
    if (w.met == m.count || m.frame[w.met].stack != f.stack || m.frame[w.met].address != address) return _URC_NO_REASON;
    if (!stands(m, w.met)) return _URC_NO_REASON;
    for (unsigned i = w.met + 1; i < m.count && w.count < w.most; ++i) w.frame[w.count++] = m.frame[i];
    return _URC_END_OF_STACK;
  }
  /// Whether the return addresses outside frame `i` are still where they were.
  static bool stands(const Memory& m, unsigned i) noexcept {
    for (; i + 1 < m.count; ++i) {
      const Frame& outer = m.frame[i + 1];
      if (outer.stack <= m.frame[i].stack || outer.stack - m.frame[i].stack > kFrameMax) return false;
      if (reinterpret_cast<const std::uintptr_t*>(outer.stack)[-1] != outer.address) return false;
    }
    return true;
  }

  Memory memory_[kMemories] = {};
};

}  // namespace mortise::os
