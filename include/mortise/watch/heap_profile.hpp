// What a sampling layer remembers: which sampled blocks are live, and for each call stack how much it asked for in all.
//
//   live:   block ──hash──► { block, bytes, stack }         open addressing; an entry that went leaves a mark until the next one comes
//   stacks: hash of return addresses ──► { depth, addresses, counts }     never forgotten; number 0 is "all others"
//
// Both are tables of fixed size in sparse memory: what is not used costs nothing, and what does not fit is counted. One lock, taken
// for samples only. Not synchronised by itself: the layer that owns it holds that lock.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/pages.hpp"

namespace mortise {

class HeapProfile {
 public:
  static constexpr unsigned kDepthMax = 60;
  static constexpr std::uint32_t kStacksMax = 1u << 14, kLiveMax = 1u << 21;

  struct Stack {
    std::uint64_t hash;
    std::uint32_t depth;
    std::uint32_t unused;
    std::uint64_t allocated_blocks, allocated_bytes, live_blocks, live_bytes;
    std::uintptr_t address[kDepthMax];
  };

  /// False when the system refuses memory; then nothing is recorded.
  bool prepare() noexcept {
    if (stacks_) return true;
    auto* stacks = os::map_sparse(kStacksMax * sizeof(Stack));
    auto* live = os::map_sparse(kLiveMax * sizeof(Live));
    if (!stacks || !live) return false;
    live_ = reinterpret_cast<Live*>(live);
    stacks_ = reinterpret_cast<Stack*>(stacks);
    return true;
  }

  void add(const std::byte* block, std::size_t bytes, const std::uintptr_t* address, unsigned depth) noexcept {
    if (!prepare()) return;
    const std::uint32_t number = number_of(address, depth);
    Stack& s = stacks_[number];
    s.allocated_blocks += 1;
    s.allocated_bytes += bytes;
    Live* const place = count_ < kLiveMax / 4 * 3 ? free_place(block) : nullptr;
    if (!place) {
      ++dropped_;
      return;
    }
    *place = {address_of(block), bytes, number};
    ++count_;
    s.live_blocks += 1;
    s.live_bytes += bytes;
  }

  /// True when the block was a sampled one.
  bool remove(const std::byte* block) noexcept {
    Live* const l = find(block);
    if (!l) return false;
    stacks_[l->stack].live_blocks -= 1;
    stacks_[l->stack].live_bytes -= l->bytes;
    l->block = kGone;
    --count_;
    return true;
  }

  /// A block that lies elsewhere now, or has another size. True when it was a sampled one.
  bool change(const std::byte* before, const std::byte* after, std::size_t bytes) noexcept {
    Live* const l = find(before);
    if (!l) return false;
    Stack& s = stacks_[l->stack];
    const std::uint32_t number = l->stack;
    s.live_bytes += bytes - l->bytes;
    l->block = kGone;
    if (Live* const place = free_place(after)) *place = {address_of(after), bytes, number};
    return true;
  }

  /// Calls see(stack) for each stack that was met.
  template <class See> void each(See&& see) const noexcept {
    for (std::uint32_t i = 0; stacks_ && i < kStacksMax; ++i)
      if (stacks_[i].allocated_blocks) see(stacks_[i]);
  }
  std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  struct Live {
    std::uintptr_t block;
    std::size_t bytes;
    std::uint32_t stack;
  };
  static constexpr std::uintptr_t kGone = 1;

  static std::uint32_t start_of(const std::byte* block) noexcept {
    return static_cast<std::uint32_t>((address_of(block) >> 4) * 0x9E3779B97F4A7C15ull >> 32) & (kLiveMax - 1);
  }
  Live* find(const std::byte* block) noexcept {
    if (!live_) return nullptr;
    for (std::uint32_t i = start_of(block), steps = 0; steps < kLiveMax; i = (i + 1) & (kLiveMax - 1), ++steps) {
      if (live_[i].block == address_of(block)) return &live_[i];
      if (!live_[i].block) return nullptr;
    }
    return nullptr;
  }
  Live* free_place(const std::byte* block) noexcept {
    for (std::uint32_t i = start_of(block), steps = 0; steps < kLiveMax; i = (i + 1) & (kLiveMax - 1), ++steps)
      if (live_[i].block <= kGone) return &live_[i];
    return nullptr;
  }
  std::uint32_t number_of(const std::uintptr_t* address, unsigned depth) noexcept {
    if (depth > kDepthMax) depth = kDepthMax;
    std::uint64_t hash = depth + 1;
    for (unsigned i = 0; i < depth; ++i) hash = (hash ^ address[i]) * 0x100000001B3ull ^ hash >> 29;
    std::uint32_t i = static_cast<std::uint32_t>(hash >> 20) % kStacksMax;
    for (unsigned tries = 0; tries < kStacksMax / 16; ++tries, i = (i + 1) % kStacksMax) {
      Stack& s = stacks_[i ? i : 1];
      if (s.depth == 0) {
        s.hash = hash;
        s.depth = depth;
        std::memcpy(s.address, address, depth * sizeof *address);
      }
      if (s.hash == hash && s.depth == depth && !std::memcmp(s.address, address, depth * sizeof *address)) return i ? i : 1;
    }
    return 0;
  }

  Stack* stacks_ = nullptr;
  Live* live_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace mortise
