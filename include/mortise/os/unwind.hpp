// Who called: the return addresses on the stack of this thread, by the unwind tables that every program carries.
//
//   return address ──hash──► rule: CFA = rsp or rbp + offset, rbp at CFA - ...     read from the tables once (frame_rule.hpp)
//                                                                                 some fifteen instructions a frame afterwards
//
// A stack with a frame that no such rule describes (a signal's, code made at run time, a processor other than x86-64, a C library
// without _dl_find_object) is walked by libgcc's unwinder, linked in statically: ten times as long. Neither takes memory or, from
// glibc 2.35 on, a lock.
#pragma once

#include <unwind.h>

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/frame_rule.hpp"

namespace mortise::os {

/// What _dl_find_object tells (glibc 2.35 and newer; without a word for data's base, as on x86-64).
struct LoadedObject {
  unsigned long long flags;
  void *first, *last, *link_map;
  const std::uint8_t* unwind_table;
  unsigned long long reserved[7];
};
extern "C" [[gnu::weak]] int mortise_find_object(void* address, LoadedObject* found) noexcept asm("_dl_find_object");

/// Walks stacks, and remembers by which rule a frame is left. All zero is one that knows none. Any thread may walk at any time.
/// `kRulesLog2` (1..16): so many rules at most, of 16 bytes each, two where an address leads.
template <unsigned kRulesLog2 = 11> class StackWalker {
 public:
  /// Writes up to `most` return addresses to `out`, the one to which this call returns first; returns how many. O(frames).
  [[gnu::noinline]] unsigned capture(std::uintptr_t* out, unsigned most) noexcept {
    const unsigned count = walk(out, most, static_cast<const std::uintptr_t*>(__builtin_frame_address(0)));
    return count != kUnknown ? count : walk_by_tables(out, most, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
  }

  /// Code was unloaded: what lies there next has other rules. A walk that is under way may still use the old ones.
  void forget() noexcept {
    for (Slot& s : slot_) set(s, 0, 0);
  }

  /// The same from the frame on to which a call returns at `first`, by libgcc's unwinder alone.
  MORTISE_COLD static unsigned walk_by_tables(std::uintptr_t* out, unsigned most, std::uintptr_t first) noexcept {
    TableWalk w{.out = out, .most = most, .first = first};
    _Unwind_Backtrace(step, &w);
    return w.count;
  }

 private:
  static constexpr unsigned kUnknown = ~0u;
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t), kFrameMax = 1 << 20;
  static constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15ull;  ///< [Knuth73] multiplicative

  /// A rule in a word, in words of the stack: 0 is none.
  ///   bits 0..1: kind   2: from rbp   8..31: CFA's distance   32..47: how far below the CFA rbp lies, 0 when it was left alone
  using Packed = std::uint64_t;
  enum Kind : Packed { kStep = 1, kLast = 2, kHard = 3 };

  /// The address xor the rule spread over the word, and the rule: a reader that meets half of a change sees another address.
  struct Slot {
    std::uint64_t key = 0;
    Packed rule = 0;
  };
  static void set(Slot& s, std::uintptr_t address, Packed rule) noexcept {
    __atomic_store_n(&s.rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&s.key, address ^ rule * kSpread, __ATOMIC_RELAXED);
  }
  /// Two neighbours: addresses of one stack that meet would take turns in a single one.
  Slot* pair_of(std::uintptr_t address) noexcept { return &slot_[(address * kSpread) >> (64 - kRulesLog2) & ~std::uint64_t{1}]; }

  MORTISE_HOT Packed rule_of(std::uintptr_t address) noexcept {
    Slot* const pair = pair_of(address);
    if (const Packed rule = look(pair[0], address)) [[likely]] return rule;
    if (const Packed rule = look(pair[1], address)) [[likely]] return rule;
    return learn(pair, address);
  }
  MORTISE_HOT static Packed look(const Slot& s, std::uintptr_t address) noexcept {
    const Packed rule = __atomic_load_n(&s.rule, __ATOMIC_RELAXED);
    return (__atomic_load_n(&s.key, __ATOMIC_RELAXED) ^ rule * kSpread) == address ? rule : 0;
  }
  MORTISE_COLD Packed learn(Slot* pair, std::uintptr_t address) noexcept {
    LoadedObject o;
    const bool is_found = &mortise_find_object != nullptr && !mortise_find_object(reinterpret_cast<void*>(address - 1), &o);
    if (!is_found) return kHard;  // not remembered: something may be loaded there later
    const Packed rule = packed(frame_rule(o.unwind_table, address));
    const Packed older = __atomic_load_n(&pair[0].rule, __ATOMIC_RELAXED);
    set(pair[1], __atomic_load_n(&pair[0].key, __ATOMIC_RELAXED) ^ older * kSpread, older);
    set(pair[0], address, rule);
    return rule;
  }
  static Packed packed(const FrameRule& r) noexcept {
    if (r.is_outermost) return kLast;
    const auto cfa = static_cast<std::uintptr_t>(r.cfa_offset);
    const auto rbp = static_cast<std::uintptr_t>(-std::intptr_t{r.saved_at[kRbpOfCalleeSaved]});
    if (!r.is_known || cfa % kWord || rbp % kWord) return kHard;
    return kStep | Packed{r.from_rbp} << 2 | cfa / kWord << 8 | rbp / kWord << 32;
  }

  /// kUnknown where a frame has no simple rule.
  unsigned walk(std::uintptr_t* out, unsigned most, const std::uintptr_t* frame) noexcept {
#ifdef __x86_64__
    auto sp = reinterpret_cast<std::uintptr_t>(frame + 2);
    std::uintptr_t address = frame[1], rbp = frame[0];
    for (unsigned count = 0; address; ) {
      if (count == most) return count;
      out[count++] = address;
      const Packed rule = rule_of(address);
      if ((rule & 3) == kLast) return count;
      if ((rule & 3) == kHard) return kUnknown;
      const std::uintptr_t cfa = (rule & 4 ? rbp : sp) + (rule >> 8 & 0xffffff) * kWord;
      if (cfa <= sp || cfa - sp > kFrameMax) return kUnknown;  // a rule of code that is gone
      address = word_at(cfa - kWord);
      if (const std::uintptr_t below = rule >> 32) rbp = word_at(cfa - below * kWord);
      sp = cfa;
      if (!address) return count;
    }
#else
    static_cast<void>(out), static_cast<void>(most), static_cast<void>(frame);
#endif
    return kUnknown;
  }
  static std::uintptr_t word_at(std::uintptr_t at) noexcept { return *reinterpret_cast<const std::uintptr_t*>(at); }

  struct TableWalk {
    std::uintptr_t* out;
    unsigned most, count = 0;
    std::uintptr_t first;  ///< what lies further in is not told
  };
  static _Unwind_Reason_Code step(_Unwind_Context* context, void* to) noexcept {
    auto& w = *static_cast<TableWalk*>(to);
    const std::uintptr_t address = _Unwind_GetIP(context);
    if (!address || w.count == w.most) return _URC_END_OF_STACK;
    if (!w.count && address != w.first) return _URC_NO_REASON;
    w.out[w.count++] = address;
    return _URC_NO_REASON;
  }

  Slot slot_[1u << kRulesLog2] = {};
};

}  // namespace mortise::os
