// From the call of malloc to the pool of its chain of calls: the keys, the steps up the stack, and each thread's cache of both.
//
//   key   = return address | id << 48         id: the size class at the first level, then that of the wrapper below
//   way   = key ──► a pool's head, or the step over one wrapper's frame:  CFA = sp (or rbp) + offset,
//                                                                        next return address at CFA - 8, rbp perhaps restored
//   malloc ── ways[hash(key)] ── head? ── done
//                   │ step: up one frame, next key, again              no frame pointers are needed, nothing is pushed at calls
//                   └ another key, or a frame that only rbp tells: a miss
//
//   goal  = head                               a pool's head
//           head | 2                           one whose objects come from the heap below: looked up, and nothing else
//           id : 16 │ rbp : 16 │ cfa | 1       a step from the stack pointer, in the way itself; rbp in words below the CFA
//           0 : 16  │ 0 : 16   │ ~0            any other step, in a table of its own: to whom does not read it, one off the stack
//
// Ways that are in use at once may meet in one place, and each call would be a miss. So conflicts are counted, and the hash is changed
// when there were too many: 256, then 512, ...
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

/// One thread's cache of ways: direct-mapped.
template <unsigned kWaysLog2 = 10> class CallWays {
 public:
  struct Way {
    CallKey key;
    std::uintptr_t goal;
  };
  static constexpr unsigned kWays = 1u << kWaysLog2, kConflictsFirst = 256, kConflictsMax = 1u << 24;

  /// What a call leads to: a head, or a step over its frame; 0 on a miss.
  MORTISE_HOT std::uintptr_t goal_of(std::uintptr_t address, unsigned size_class) const noexcept {
    const CallKey key = call_key(address, size_class);
    const Way& w = way_at(key);
    if (w.key != key) return 0;
    if (!w.goal) __builtin_unreachable();
    return w.goal;
  }
  MORTISE_HOT static bool is_step(std::uintptr_t goal) noexcept { return goal & 1; }
  MORTISE_HOT static bool is_head(std::uintptr_t goal) noexcept { return !(goal & 3); }
  MORTISE_HOT static PoolHead* head_to_forward(std::uintptr_t goal) noexcept { return reinterpret_cast<PoolHead*>(goal - 2); }

  /// Where a step leads to, over frames that the stack pointer alone leaves: a head, or 0 on a miss. The caller has made sure that
  /// no code was unloaded since the step was set. O(levels).
  MORTISE_HOT std::uintptr_t climb(std::uintptr_t step, std::uintptr_t sp, std::uintptr_t stack_end) const noexcept {
    for (;;) {
      if (step & 2) return 0;  // kOtherStep: from a coroutine's stack, 4 GiB on need not be off the thread's
      sp += static_cast<std::uint32_t>(step) - std::uintptr_t{1};
      if (sp > stack_end) return 0;
      const CallKey key = reinterpret_cast<const std::uintptr_t*>(sp)[-1] | (step & kIdMask);
      const Way& w = way_at(key);
      if (w.key != key) return 0;
      step = w.goal;
      if (!step) __builtin_unreachable();
      if (is_head(step)) return step;
      if (!is_step(step)) return step;
    }
  }

  /// From the call on, over all frames, with the caller's rbp known.
  PoolHead* follow(std::uintptr_t address, unsigned id, CallFrame f, std::uintptr_t stack_end) const noexcept {
    for (;;) {
      const CallKey key = call_key(address, id);
      const Way& w = way_at(key);
      if (w.key != key) return nullptr;
      if (!is_step(w.goal)) return is_head(w.goal) ? reinterpret_cast<PoolHead*>(w.goal) : head_to_forward(w.goal);
      const CallStep step = w.goal != kOtherStep ? step_of(w.goal) : *other_step_[&w - way_];
      if (!f.climb(step, stack_end)) return nullptr;
      address = f.return_address();
      id = step.id;
    }
  }
  void set(CallKey key, PoolHead* head) noexcept { put(key, reinterpret_cast<std::uintptr_t>(head) | (head->is_forwarding ? 2u : 0u)); }
  void set(CallKey key, const CallStep* step) noexcept { other_step_[put(key, goal_to(*step))] = step; }
  void clear() noexcept {
    for (Way& w : way_) w = {};
  }

 private:
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t), kIdMask = std::uintptr_t{0xffff} << kCallKeyShift;
  static constexpr std::uintptr_t kOtherStep = ~std::uint32_t{0};
  static constexpr unsigned kRbpShift = 32;

  static std::uintptr_t goal_to(const CallStep& step) noexcept {
    const auto rbp = static_cast<std::uintptr_t>(-std::intptr_t{step.rbp_offset});
    const bool is_plain = !step.from_rbp && step.cfa_offset > 0 && static_cast<std::uint32_t>(step.cfa_offset) % kWord == 0 &&
                          rbp % kWord == 0 && rbp / kWord <= 0xffff;
    if (!is_plain) return kOtherStep;
    return std::uintptr_t{step.id} << kCallKeyShift | rbp / kWord << kRbpShift | static_cast<std::uint32_t>(step.cfa_offset) | 1;
  }
  static CallStep step_of(std::uintptr_t goal) noexcept {
    return {.cfa_offset = static_cast<std::int32_t>(goal - 1),
            .rbp_offset = static_cast<std::int16_t>(-static_cast<std::intptr_t>((goal >> kRbpShift & 0xffff) * kWord)),
            .from_rbp = false,
            .id = static_cast<std::uint16_t>(goal >> kCallKeyShift)};
  }
  /// [Knuth73] multiplicative: return addresses of one function differ in their low bits only, the id in its high ones.
  MORTISE_HOT const Way& way_at(CallKey key) const noexcept {
    constexpr std::size_t kBytes = kWays * sizeof(Way);
    const std::size_t at = key * multiplier_ >> (64 - kWaysLog2 - 4) & (kBytes - sizeof(Way));
    return *reinterpret_cast<const Way*>(reinterpret_cast<const std::byte*>(way_) + at);
  }
  std::size_t put(CallKey key, std::uintptr_t goal) noexcept {
    if (const CallKey there = way_at(key).key; there && there != key && ++conflicts_ >= conflicts_most_) {
      conflicts_ = 0;
      if (conflicts_most_ < kConflictsMax) conflicts_most_ *= 2;
      multiplier_ = multiplier_ * 0xD1342543DE82EF95ull | 1;
      clear();
    }
    const auto index = static_cast<std::size_t>(&way_at(key) - way_);
    way_[index] = {key, goal};
    return index;
  }

  std::uint64_t multiplier_ = 0x9E3779B97F4A7C15ull;
  std::uint32_t conflicts_ = 0, conflicts_most_ = kConflictsFirst;
  Way way_[kWays] = {};
  const CallStep* other_step_[kWays] = {};  ///< where a way's goal is no plain step
};

}  // namespace mortise
