// The shared part of a pool: stacks of chains of free slots, one stack a shard.
//
//   shard 0: head ─▶ [chain of 32] ─▶ [chain of 32]     An empty magazine takes a chain, a full one gives one:
//   shard 1: head ─▶ [chain of 32]                         one exchange for 32 objects.
//   shard 2: head ─▶ (empty: look at the next shard)
//
// Progress: push and pop are lock-free; pop looks at each shard once.
#pragma once

#include <cstdint>

#include "mortise/policy/distribution.hpp"
#include "mortise/pool/head.hpp"
#include "mortise/pool/slots.hpp"

namespace mortise::pools {

inline constexpr unsigned kChainMax = 64;

/// All zero is a valid empty one, of no shards.
class Transfer {
 public:
  static constexpr unsigned kShardsMax = 8;
  struct alignas(128) Shard {
    DefaultHead head;
    /// Slots in chains here; changed once a chain, with it. Below zero where a trim has put here what another one counts.
    Atomic<std::int64_t> idle{0};
    Atomic<std::uint64_t> repeats{0}, pushes{0}, pops{0};
  };

  void start(Shard* shards, unsigned count) noexcept {
    shards_ = shards;
    count_ = count;
  }

  /// Gives `n` slots, at least one and at most kChainMax, as one chain. The first is popped first.
  void push(const Slots& slots, unsigned where, std::byte* const* blocks, unsigned n) noexcept {
    Shard& shard = shard_at(where);
    FreeLink* const chain = tie(slots, blocks, n);
    slots.node(slots.index_of(chain)).count.store(n, Order::relaxed);
    shard.idle.fetch_add(n, Order::relaxed);  // before the chain can be popped: the sum never falls below zero
    push(slots, shard, chain);
    shard.pushes.fetch_add(1, Order::relaxed);
  }

  /// Takes one chain into `blocks`, which has room for kChainMax; from shard `where`, or from the next one that has
  /// any.
  unsigned pop(const Slots& slots, unsigned where, std::byte** blocks) noexcept {
    for (unsigned k = 0; k < count_; ++k) {
      Shard& shard = shard_at(where + k);
      FreeLink* const chain = pop(slots, shard);
      if (!chain) continue;
      const unsigned n = untie(slots, chain, blocks);
      shard.idle.fetch_sub(n, Order::relaxed);
      shard.pops.fetch_add(1, Order::relaxed);
      return n;
    }
    return 0;
  }

  /// The same for one who looks through all of them: what it sets aside goes on to count as idle until it is put back, or
  /// given up. Which shard counts it matters to nobody, only the sum is read. Null when there is none.
  FreeLink* set_aside(const Slots& slots) noexcept {
    for (unsigned k = 0; k < count_; ++k)
      if (FreeLink* const chain = pop(slots, shards_[k])) return chain;
    return nullptr;
  }
  void put_back(const Slots& slots, unsigned where, FreeLink* chain) noexcept { push(slots, shard_at(where), chain); }
  void give_up(std::int64_t n) noexcept { shards_->idle.fetch_sub(n, Order::relaxed); }

  /// Exact when nobody is inside; else off by what others move while the shards are read, but never below zero.
  std::uint32_t idle() const noexcept {
    std::int64_t all = 0;
    for (unsigned i = 0; i < count_; ++i) all += shards_[i].idle.load(Order::relaxed);
    return all > 0 ? static_cast<std::uint32_t>(all) : 0;
  }
  std::uint64_t repeats() const noexcept { return sum(&Shard::repeats); }
  std::uint64_t pushes() const noexcept { return sum(&Shard::pushes); }
  std::uint64_t pops() const noexcept { return sum(&Shard::pops); }
  unsigned shards() const noexcept { return count_; }

  /// Writes a chain of `n` slots but for how many they are, which its first one tells.
  static FreeLink* tie(const Slots& slots, std::byte* const* blocks, unsigned n) noexcept {
    std::uint32_t next = kNoSlot;
    for (unsigned i = (n - 1) / Node::kSlots * Node::kSlots;; i -= Node::kSlots) {
      const std::uint32_t index = slots.index_of(blocks[i]);
      Node& node = slots.node(index);
      node.next = next;
      for (unsigned j = 1; j < Node::kSlots && i + j < n; ++j) node.others[j - 1] = slots.index_of(blocks[i + j]);
      next = index;
      if (i == 0) return &node.link;
    }
  }
  /// Fills `blocks` with the slots of a chain; returns how many.
  static unsigned untie(const Slots& slots, const FreeLink* chain, std::byte** blocks) noexcept {
    std::uint32_t index = slots.index_of(chain);
    const unsigned n = slots.node(index).count.load(Order::relaxed);
    for (unsigned i = 0; i < n; i += Node::kSlots) {
      const Node& node = slots.node(index);
      blocks[i] = slots.at(index);
      for (unsigned j = 1; j < Node::kSlots && i + j < n; ++j) blocks[i + j] = slots.at(node.others[j - 1]);
      index = node.next;
    }
    return n;
  }

 private:
  static Links links(const Slots& slots) noexcept {
    return {reinterpret_cast<std::byte*>(&slots.node(0)), sizeof(Node)};
  }
  Shard& shard_at(unsigned where) const noexcept { return shards_[SpreadInTurn::spread(where, count_)]; }

  static void push(const Slots& slots, Shard& shard, FreeLink* chain) noexcept {
    shard.head.push(links(slots), chain, [&shard] { shard.repeats.fetch_add(1, Order::relaxed); });
  }
  static FreeLink* pop(const Slots& slots, Shard& shard) noexcept {
    return shard.head.pop(links(slots), [&shard] { shard.repeats.fetch_add(1, Order::relaxed); });
  }

  std::uint64_t sum(Atomic<std::uint64_t> Shard::*counter) const noexcept {
    std::uint64_t all = 0;
    for (unsigned i = 0; i < count_; ++i) all += (shards_[i].*counter).load(Order::relaxed);
    return all;
  }

  Shard* shards_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace mortise::pools
