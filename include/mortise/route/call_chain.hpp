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
#include "mortise/policy/chooser.hpp"
#include "mortise/route/pool_segment.hpp"

namespace mortise {

/// One thread's cache of ways: direct-mapped. All zero is empty.
template <unsigned kWaysLog2 = 9> class CallWays {
 public:
  struct Way {
    CallKey key;
    std::uintptr_t goal;  ///< a PoolHead*, or a CallStep* with bit 0 set
  };
  static constexpr unsigned kWays = 1u << kWaysLog2;

  MORTISE_HOT const Way& at(CallKey key) const noexcept { return way_[index_of(key)]; }
  /// What a return address leads to: a head, or with bit 0 set a step; 0 on a miss. `id` is the size class.
  MORTISE_HOT std::uintptr_t goal_of(std::uintptr_t address, unsigned id) const noexcept {
    const CallKey key = call_key(address, id);
    const Way& w = at(key);
    return w.key == key ? w.goal : 0;
  }
  MORTISE_HOT static PoolHead* head_of(std::uintptr_t goal) noexcept { return reinterpret_cast<PoolHead*>(goal); }
  MORTISE_HOT static bool is_head(std::uintptr_t goal) noexcept { return goal && !(goal & 1); }

  /// Follows steps from `goal` up the chain above `f`, to a head; null on a miss.
  MORTISE_HOT PoolHead* follow(std::uintptr_t goal, CallFrame f, std::uintptr_t stack_end) const noexcept {
    while (goal & 1) {
      const auto& step = *reinterpret_cast<const CallStep*>(goal & ~std::uintptr_t{1});
      if (!f.climb(step, stack_end)) [[unlikely]] return nullptr;
      goal = goal_of(f.return_address(), step.id);
    }
    return head_of(goal);
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

}  // namespace mortise
