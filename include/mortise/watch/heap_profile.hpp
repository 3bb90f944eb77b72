// What a sampling layer remembers: which sampled blocks are live, and for each call stack how much it asked for in all.
//
//   live:   block ──hash──► { block, bytes, stack, place }   open addressing; doubled when three quarters full, closed up when one goes
//   stacks: hash of return addresses ──► number ──► { depth, addresses, counts }    never forgotten; number 0 is "all others"
//
// Both begin small and are dense, so that a sample seldom touches a page for the first time, and grow with what there is. What does not
// fit is counted. Not synchronised: the layer that owns it holds its lock.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/pages.hpp"

namespace mortise {

class HeapProfile {
 public:
  static constexpr unsigned kDepthMax = 60;
  static constexpr std::uint32_t kStacksMax = 1u << 18, kLiveMax = 1u << 30;

  struct Stack {
    std::uint64_t hash;
    std::uint32_t depth;
    std::uint32_t unused;
    std::uint64_t allocated_blocks, allocated_bytes, live_blocks, live_bytes;
    std::uintptr_t address[kDepthMax];
  };
  /// A sampled block. Where it lies is the layer's affair: `place` and `place_bytes` are kept for it.
  struct Live {
    std::byte* block = nullptr;
    std::size_t bytes = 0;
    void* place = nullptr;
    std::uint32_t place_bytes = 0;
    std::uint32_t stack = 0;
  };

  /// False when the block could not be recorded: the tables are full or the system refuses memory.
  bool add(Live l, const std::uintptr_t* address, unsigned depth) noexcept {
    if (!prepare()) {
      ++dropped_;
      return false;
    }
    l.stack = number_of(address, depth);
    Stack& s = stack(l.stack);
    s.allocated_blocks += 1;
    s.allocated_bytes += l.bytes;
    if (count_ >= capacity_ / 4 * 3 && !grow()) {
      ++dropped_;
      return false;
    }
    *free_place(l.block) = l;
    ++count_;
    s.live_blocks += 1;
    s.live_bytes += l.bytes;
    return true;
  }

  /// What was known of a block, which is forgotten; with a null `block` when it was not a sampled one.
  Live remove(const std::byte* block) noexcept {
    Live* const found = find(block);
    if (!found) return {};
    const Live l = *found;
    Stack& s = stack(l.stack);
    s.live_blocks -= 1;
    s.live_bytes -= l.bytes;
    close_up(static_cast<std::uint32_t>(found - live_));
    --count_;
    return l;
  }

  /// A block that lies elsewhere now, or has another size. True when it was a sampled one.
  bool change(const std::byte* before, std::byte* after, std::size_t bytes) noexcept {
    Live* const found = find(before);
    if (!found) return false;
    stack(found->stack).live_bytes += bytes - found->bytes;
    Live l = *found;
    l.bytes = bytes;
    if (after == before) {
      *found = l;
      return true;
    }
    close_up(static_cast<std::uint32_t>(found - live_));
    l.block = after;
    *free_place(after) = l;
    return true;
  }

  /// Null when the block is not a sampled one. Good until the next change.
  const Live* look_up(const std::byte* block) const noexcept { return find(block); }

  /// Calls see(stack) for each stack that was met.
  template <class See> void each(See&& see) const noexcept {
    for (std::uint32_t i = 0; shelves_[0] && i < stack_count_; ++i)
      if (const Stack& s = stack(i); s.allocated_blocks) see(s);
  }
  /// Blocks that could not be recorded: what is live does not have them.
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  static constexpr std::uint32_t kLiveFirst = 512, kNumbersFirst = 1u << 14, kShelf = 1u << 12;

  Stack& stack(std::uint32_t number) const noexcept { return shelves_[number / kShelf][number % kShelf]; }
  bool prepare() noexcept { return (shelves_[0] || add_shelf(0)) && (number_capacity_ || grow_numbers()) && (capacity_ || grow()); }
  bool add_shelf(std::uint32_t i) noexcept {
    shelves_[i] = reinterpret_cast<Stack*>(os::map_sparse(kShelf * sizeof(Stack)));
    return shelves_[i];
  }
  /// Half of it is free always.
  bool grow_numbers() noexcept {
    const std::uint32_t bigger = number_capacity_ ? 2 * number_capacity_ : kNumbersFirst, old_capacity = number_capacity_;
    std::byte* const fresh = os::map_sparse(bigger * sizeof *numbers_);
    if (!fresh) return false;
    std::byte* const old = reinterpret_cast<std::byte*>(numbers_);
    numbers_ = reinterpret_cast<std::uint32_t*>(fresh);
    number_capacity_ = bigger;
    for (std::uint32_t number = 1; number < stack_count_; ++number) numbers_[free_number(stack(number).hash)] = number;
    if (old) os::unmap(old, round_up(old_capacity * sizeof *numbers_, 4096));
    return true;
  }
  std::uint32_t number_at(std::uint64_t hash) const noexcept {
    return static_cast<std::uint32_t>(hash * 0x9E3779B97F4A7C15ull >> 32) & (number_capacity_ - 1);
  }
  std::uint32_t free_number(std::uint64_t hash) const noexcept {
    std::uint32_t i = number_at(hash);
    while (numbers_[i]) i = (i + 1) & (number_capacity_ - 1);
    return i;
  }

  bool grow() noexcept {
    const std::uint32_t bigger = capacity_ ? 2 * capacity_ : kLiveFirst;
    if (bigger > kLiveMax) return false;
    std::byte* const fresh = os::map_sparse(bigger * sizeof(Live));
    if (!fresh) return false;
    Live* const old = live_;
    const std::uint32_t old_capacity = capacity_;
    live_ = reinterpret_cast<Live*>(fresh);
    capacity_ = bigger;
    for (std::uint32_t i = 0; i < old_capacity; ++i)
      if (old[i].block) *free_place(old[i].block) = old[i];
    if (old) os::unmap(reinterpret_cast<std::byte*>(old), round_up(old_capacity * sizeof(Live), 4096));
    return true;
  }

  std::uint32_t start_of(const std::byte* block) const noexcept {
    return static_cast<std::uint32_t>((address_of(block) >> 4) * 0x9E3779B97F4A7C15ull >> 32) & (capacity_ - 1);
  }
  std::uint32_t after(std::uint32_t i) const noexcept { return (i + 1) & (capacity_ - 1); }
  Live* find(const std::byte* block) const noexcept {
    if (!capacity_) return nullptr;
    for (std::uint32_t i = start_of(block); live_[i].block; i = after(i))
      if (live_[i].block == block) return &live_[i];
    return nullptr;
  }
  /// A quarter of the table is free always.
  Live* free_place(const std::byte* block) const noexcept {
    std::uint32_t i = start_of(block);
    while (live_[i].block) i = after(i);
    return &live_[i];
  }
  /// Empties place `gone`: entries behind it that belong before it move up. [Knuth73] 6.4, algorithm R.
  void close_up(std::uint32_t gone) noexcept {
    for (std::uint32_t i = after(gone); live_[i].block; i = after(i)) {
      const std::uint32_t home = start_of(live_[i].block);
      if (((i - home) & (capacity_ - 1)) < ((i - gone) & (capacity_ - 1))) continue;
      live_[gone] = live_[i];
      gone = i;
    }
    live_[gone] = {};
  }

  std::uint32_t number_of(const std::uintptr_t* address, unsigned depth) noexcept {
    if (depth > kDepthMax) depth = kDepthMax;
    std::uint64_t hash = depth + 1;
    for (unsigned i = 0; i < depth; ++i) hash = (hash ^ address[i]) * 0x100000001B3ull ^ hash >> 29;
    for (std::uint32_t i = number_at(hash); numbers_[i]; i = (i + 1) & (number_capacity_ - 1)) {
      const Stack& s = stack(numbers_[i]);
      if (s.hash == hash && s.depth == depth && !std::memcmp(s.address, address, depth * sizeof *address)) return numbers_[i];
    }
    const std::uint32_t number = stack_count_;
    if (number == kStacksMax || (!shelves_[number / kShelf] && !add_shelf(number / kShelf))) return 0;
    if (number >= number_capacity_ / 2 && !grow_numbers()) return 0;
    numbers_[free_number(hash)] = number;
    Stack& s = stack(number);
    s.hash = hash;
    s.depth = depth;
    std::memcpy(s.address, address, depth * sizeof *address);
    stack_count_ = number + 1;
    return number;
  }

  std::uint32_t* numbers_ = nullptr;
  Stack* shelves_[kStacksMax / kShelf] = {};
  Live* live_ = nullptr;
  Preset<1u> stack_count_;
  std::uint32_t number_capacity_ = 0, capacity_ = 0, count_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace mortise
