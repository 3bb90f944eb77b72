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
    Atomic<std::uint32_t> idle{0};  ///< slots in chains here; changed once a chain, with it
    Atomic<std::uint64_t> repeats{0}, pushes{0}, pops{0};
  };

  void start(Shard* shards, unsigned count) noexcept {
    shards_ = shards;
    count_ = count;
  }

  /// Gives `n` slots, at least one and at most kChainMax, as one chain. The first is popped first.
  void push(const Slots& slots, unsigned where, std::byte* const* blocks, unsigned n) noexcept {
    Shard& shard = shard_at(where);
    shard.idle.fetch_add(n, Order::relaxed);  // before the chain can be popped: the sum never falls below zero
    shard.pushes.fetch_add(1, Order::relaxed);
    chain(slots, shard, blocks, n);
  }

  /// Takes one chain into `blocks`, which has room for kChainMax; from shard `where`, or from the next one that has
  /// any.
  unsigned pop(const Slots& slots, unsigned where, std::byte** blocks) noexcept {
    for (unsigned k = 0; k < count_; ++k) {
      Shard& shard = shard_at(where + k);
      const unsigned n = unchain(slots, shard, blocks);
      if (!n) continue;
      shard.idle.fetch_sub(n, Order::relaxed);
      shard.pops.fetch_add(1, Order::relaxed);
      return n;
    }
    return 0;
  }

  /// The same for one who looks through all of them: what it sets aside goes on to count as idle until it is put back, or
  /// given up. Which shard counts it matters to nobody, only the sum is read.
  unsigned set_aside(const Slots& slots, std::byte** blocks) noexcept {
    for (unsigned k = 0; k < count_; ++k)
      if (const unsigned n = unchain(slots, shards_[k], blocks)) return n;
    return 0;
  }
  void put_back(const Slots& slots, unsigned where, std::byte* const* blocks, unsigned n) noexcept {
    chain(slots, shard_at(where), blocks, n);
  }
  void give_up_one() noexcept { shards_->idle.fetch_sub(1, Order::relaxed); }

  std::uint32_t idle() const noexcept {
    std::uint32_t all = 0;
    for (unsigned i = 0; i < count_; ++i) all += shards_[i].idle.load(Order::relaxed);
    return all;
  }
  std::uint64_t repeats() const noexcept { return sum(&Shard::repeats); }
  std::uint64_t pushes() const noexcept { return sum(&Shard::pushes); }
  std::uint64_t pops() const noexcept { return sum(&Shard::pops); }
  unsigned shards() const noexcept { return count_; }

 private:
  static Links links(const Slots& slots) noexcept {
    return {reinterpret_cast<std::byte*>(&slots.node(0)), sizeof(Node)};
  }
  Shard& shard_at(unsigned where) const noexcept { return shards_[SpreadInTurn::spread(where, count_)]; }

  static void chain(const Slots& slots, Shard& shard, std::byte* const* blocks, unsigned n) noexcept {
    std::uint32_t next = kNoSlot;
    for (unsigned i = (n - 1) / Node::kSlots * Node::kSlots;; i -= Node::kSlots) {
      const std::uint32_t index = slots.index_of(blocks[i]);
      Node& node = slots.node(index);
      node.next = next;
      for (unsigned j = 1; j < Node::kSlots && i + j < n; ++j) node.others[j - 1] = slots.index_of(blocks[i + j]);
      next = index;
      if (i == 0) break;
    }
    Node& first = slots.node(next);
    first.count.store(n, Order::relaxed);
    shard.head.push(links(slots), &first.link, [&shard] { shard.repeats.fetch_add(1, Order::relaxed); });
  }

  static unsigned unchain(const Slots& slots, Shard& shard, std::byte** blocks) noexcept {
    FreeLink* const link = shard.head.pop(links(slots), [&shard] { shard.repeats.fetch_add(1, Order::relaxed); });
    if (!link) return 0;
    std::uint32_t index = slots.index_of(link);
    const unsigned n = slots.node(index).count.load(Order::relaxed);
    for (unsigned i = 0; i < n; i += Node::kSlots) {
      const Node& node = slots.node(index);
      blocks[i] = slots.at(index);
      for (unsigned j = 1; j < Node::kSlots && i + j < n; ++j) blocks[i + j] = slots.at(node.others[j - 1]);
      index = node.next;
    }
    return n;
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
