// From the call of malloc to the pool of its chain of calls: the keys, the steps up the stack, and each thread's cache of both.
//
//   key   = return address | id << 48         id: the size class at the first level, then that of the wrapper below
//   way   = key ──► a pool's head, or the step over one wrapper's frame:  CFA = sp (or rbp) + offset,
//                                                                        next return address at CFA - 8, rbp perhaps restored
//   malloc ── ways[hash(key)] ── head? ── done
//                   │ step: up one frame, next key, again              no frame pointers are needed, nothing is pushed at calls
//                   └ another key: a miss; the Chooser is asked
//
// Source: variable-length call chains [Wang10]; the direct-mapped cache of ways takes the place of the article's patched call
// sites. Nothing here reads code: steps come from the Chooser.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/route/pool_segment.hpp"

namespace mortise {

/// How to go from the frame of a wrapper to its caller's. Constant once made, and never released.
struct alignas(8) CallStep {
  std::int32_t cfa_offset;      ///< from the stack pointer after the callee's return, or from rbp
  std::int16_t rbp_offset;      ///< where the caller's rbp lies, from the CFA; 0 when the wrapper left it alone
  bool from_rbp;
  std::uint16_t id;             ///< of the way that leads here; the next key's
};

using CallKey = std::uint64_t;
inline constexpr unsigned kCallKeyShift = 48;
constexpr CallKey call_key(std::uintptr_t return_address, unsigned id) noexcept {
  return return_address | std::uint64_t{id} << kCallKeyShift;
}

/// Where the frames of wrappers are looked for: upwards from `sp`.
struct CallFrame {
  std::uintptr_t sp;   ///< the stack pointer after the return from the callee
  std::uintptr_t rbp;
  bool has_rbp;        ///< on a hit, the frame register is not read; a step that needs it is a miss then

  /// Goes up by `s`. False when the frame would not lie on this stack, up to `stack_end`: a rule that is stale or meant for
  /// another stack must not be followed.
  MORTISE_HOT bool climb(const CallStep& s, std::uintptr_t stack_end) noexcept {
    if (s.from_rbp && !has_rbp) return false;
    const std::uintptr_t cfa = (s.from_rbp ? rbp : sp) + static_cast<std::uintptr_t>(std::intptr_t{s.cfa_offset});
    if (cfa <= sp || cfa > stack_end) return false;
    if (s.rbp_offset) {
      const std::uintptr_t at = cfa + static_cast<std::uintptr_t>(std::intptr_t{s.rbp_offset});
      if (at < sp) return false;
      rbp = *reinterpret_cast<const std::uintptr_t*>(at);
      has_rbp = true;
    }
    sp = cfa;
    return true;
  }
  std::uintptr_t return_address() const noexcept { return reinterpret_cast<const std::uintptr_t*>(sp)[-1]; }
};

/// One thread's cache of ways: direct-mapped. All zero is empty.
template <unsigned kWaysLog2 = 9> class CallWays {
 public:
  struct Way {
    CallKey key;
    std::uintptr_t goal;  ///< a PoolHead*, or a CallStep* with bit 0 set
  };
  static constexpr unsigned kWays = 1u << kWaysLog2;

  MORTISE_HOT const Way& at(CallKey key) const noexcept { return way_[index_of(key)]; }
  /// The head that a single return address leads to; null on a miss, and when there are wrappers on the way.
  MORTISE_HOT PoolHead* find(std::uintptr_t address, unsigned id) const noexcept {
    const CallKey key = call_key(address, id);
    const Way& w = at(key);
    if (w.key != key || w.goal & 1) [[unlikely]] return nullptr;
    if (w.goal == 0) __builtin_unreachable();  // no key is 0
    return reinterpret_cast<PoolHead*>(w.goal);
  }
  /// The head that the chain above `f` leads to; null on a miss. `id` is the size class, `address` malloc's return address.
  /// Steps are followed only while `is_valid()`.
  template <class IsValid>
  MORTISE_HOT PoolHead* find(std::uintptr_t address, unsigned id, CallFrame f, std::uintptr_t stack_end,
                             IsValid&& is_valid) const noexcept {
    CallKey key = call_key(address, id);
    for (;;) {
      const Way& w = at(key);
      if (w.key != key) [[unlikely]] return nullptr;
      if (!(w.goal & 1)) [[likely]] return reinterpret_cast<PoolHead*>(w.goal);
      const auto& step = *reinterpret_cast<const CallStep*>(w.goal & ~std::uintptr_t{1});
      if (!is_valid() || !f.climb(step, stack_end)) [[unlikely]] return nullptr;
      key = call_key(f.return_address(), step.id);
    }
  }
  void set(CallKey key, PoolHead* head) noexcept { way_[index_of(key)] = {key, reinterpret_cast<std::uintptr_t>(head)}; }
  void set(CallKey key, const CallStep* step) noexcept {
    way_[index_of(key)] = {key, reinterpret_cast<std::uintptr_t>(step) | 1};
  }
  void clear() noexcept {
    for (Way& w : way_) w = {};
  }

 private:
  /// [Knuth73] multiplicative: return addresses of one function differ in their low bits only, the id in its high ones.
  MORTISE_HOT static std::size_t index_of(CallKey key) noexcept { return (key * 0x9E3779B97F4A7C15ull) >> (64 - kWaysLog2); }
  Way way_[kWays] = {};
};

/// What a Chooser says of a call: the ways that led there, for the cache, and the pool.
struct CallChoice {
  static constexpr unsigned kStepsMax = 8;
  struct Hop {
    CallKey key;
    const CallStep* step;
  };
  Hop hop[kStepsMax];
  unsigned hops = 0;
  CallKey key = 0;         ///< the last one, of the pool
  Pool* pool = nullptr;    ///< null: not yet decided; this object comes from the heap below
  std::uint32_t tag = 0;   ///< the Chooser's own, until it is told the object's address
};

/// Where a call of malloc was made, as a Chooser sees it on a miss.
struct CallSite {
  std::uintptr_t address;                ///< malloc's return address; 0 for a Chooser that does not read calls
  CallFrame frame;
  std::uintptr_t stack_end;
  const std::uintptr_t* callee_saved;    ///< rbx rbp r12 r13 r14 r15 at the call
};

/// Where an address lies in a pool: which one, and the object's first byte. Empty when in none.
struct PooledObject {
  Pool* pool = nullptr;
  std::byte* start = nullptr;
};

/// The slot's question: from which pool does an object of this size class, asked for at this call, come?
/// `choose` runs on misses only and may lock; `gave` is called with every object that it left undecided.
template <class C> concept Chooser = requires(C& c, const CallSite& site, CallChoice& choice, void* p, std::size_t n, bool big) {
  { C::kReadsCalls } -> std::convertible_to<bool>;
  { c.start() } noexcept -> std::same_as<bool>;
  { c.choose(site, n, choice) } noexcept -> std::same_as<void>;
  { c.gave(site, choice, p, n) } noexcept -> std::same_as<void>;
  { c.epoch() } noexcept -> std::same_as<std::uint32_t>;     ///< changes when steps have become invalid (unloaded code)
  { c.object_bytes_max() } noexcept -> std::same_as<std::size_t>;
  c.lock_all(); c.unlock_all(); c.reset_after_fork();
};

}  // namespace mortise
