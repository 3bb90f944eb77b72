// From the call of malloc to the pool of its chain of calls: the keys, the steps up the stack, and each thread's cache of both.
//
//   key   = return address | id << 48         id: the size class at the first level, then that of the wrapper below
//   way   = key ──► a pool's head, or the step over one wrapper's frame:  CFA = sp (or rbp) + offset,
//                                                                        next return address at CFA - 8, rbp perhaps restored
//   malloc ── ways[hash(key)] ── head? ── done
//                   │ step: up one frame, next key, again              no frame pointers are needed, nothing is pushed at calls
//                   └ another key, or a frame that only rbp tells: a miss
//
//   goal  = head                        even   a pool's head
//           id : 16 │ rbp : 16 │ cfa | 1  odd    a step from the stack pointer, in the way itself; rbp in words below the CFA
//           0                                    any other step: in a table of its own, that hits do not read
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
    std::uintptr_t goal;
  };
  static constexpr unsigned kWays = 1u << kWaysLog2;

  /// What a call leads to: a head, or, odd, a step over its frame; 0 on a miss.
  MORTISE_HOT std::uintptr_t goal_of(std::uintptr_t address, unsigned size_class) const noexcept {
    const CallKey key = call_key(address, size_class);
    const Way& w = way_[index_of(key)];
    return w.key == key ? w.goal : 0;
  }
  MORTISE_HOT static bool is_step(std::uintptr_t goal) noexcept { return goal & 1; }

  /// Where a step leads to, over frames that the stack pointer alone leaves: a head, or 0 on a miss. The caller has made sure that
  /// no code was unloaded since the step was set. O(levels).
  MORTISE_HOT std::uintptr_t climb(std::uintptr_t step, std::uintptr_t sp, std::uintptr_t stack_end) const noexcept {
    do {
      sp += static_cast<std::uint32_t>(step) - std::uintptr_t{1};
      if (sp > stack_end) return 0;
      const CallKey key = reinterpret_cast<const std::uintptr_t*>(sp)[-1] | (step & kIdMask);
      const Way& w = way_[index_of(key)];
      if (w.key != key) return 0;
      step = w.goal;
    } while (is_step(step));
    return step;
  }

  /// From the call on, over all frames, with the caller's rbp known.
  PoolHead* follow(std::uintptr_t address, unsigned id, CallFrame f, std::uintptr_t stack_end) const noexcept {
    for (;;) {
      const CallKey key = call_key(address, id);
      const Way& w = way_[index_of(key)];
      if (w.key != key) return nullptr;
      if (w.goal && !is_step(w.goal)) return reinterpret_cast<PoolHead*>(w.goal);
      const CallStep step = w.goal ? step_of(w.goal) : *other_step_[index_of(key)];
      if (!f.climb(step, stack_end)) return nullptr;
      address = f.return_address();
      id = step.id;
    }
  }
  void set(CallKey key, PoolHead* head) noexcept { way_[index_of(key)] = {key, reinterpret_cast<std::uintptr_t>(head)}; }
  void set(CallKey key, const CallStep* step) noexcept {
    way_[index_of(key)] = {key, goal_to(*step)};
    other_step_[index_of(key)] = step;
  }
  void clear() noexcept {
    for (Way& w : way_) w = {};
  }

 private:
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t), kIdMask = std::uintptr_t{0xffff} << kCallKeyShift;
  static constexpr unsigned kRbpShift = 32;

  static std::uintptr_t goal_to(const CallStep& step) noexcept {
    const auto rbp = static_cast<std::uintptr_t>(-std::intptr_t{step.rbp_offset});
    const bool is_plain = !step.from_rbp && step.cfa_offset > 0 && step.cfa_offset % kWord == 0 &&
                          rbp % kWord == 0 && rbp / kWord <= 0xffff;
    if (!is_plain) return 0;
    return std::uintptr_t{step.id} << kCallKeyShift | rbp / kWord << kRbpShift | static_cast<std::uint32_t>(step.cfa_offset) | 1;
  }
  static CallStep step_of(std::uintptr_t goal) noexcept {
    return {.cfa_offset = static_cast<std::int32_t>(goal - 1),
            .rbp_offset = static_cast<std::int16_t>(-static_cast<std::intptr_t>((goal >> kRbpShift & 0xffff) * kWord)),
            .from_rbp = false,
            .id = static_cast<std::uint16_t>(goal >> kCallKeyShift)};
  }
  /// [Knuth73] multiplicative: return addresses of one function differ in their low bits only, the id in its high ones.
  MORTISE_HOT static std::size_t index_of(CallKey key) noexcept { return (key * 0x9E3779B97F4A7C15ull) >> (64 - kWaysLog2); }
  Way way_[kWays] = {};
  const CallStep* other_step_[kWays] = {};  ///< where a way's goal is 0
};

}  // namespace mortise
