// Whether it pays to look up the callers of one size class: it does while several groups of its objects take memory, and enough of it.
//
//   open ── every 32768, 65536, ... objects ── one group has 15/16 of what the class took since? ─┬► closed
//     ▲                                       or all of it is less than 64 KiB? ────────────────┘
//     ├──── of the samples since then, 8 (then 16, 32, ...) and one in eight were of others ────── closed
//     └──── or there were 256 of them (then 512, ...) ─────────────────────────────────────────────┘
//
// The last rule is for groups that are allocated in turn, of which misses may meet always the same one.
// A closed class costs what the heap below costs. Its samples are some of that heap's misses. Objects that are
// allocated and freed over and over take no memory and make no misses: where they lie does not matter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/seam.hpp"

namespace mortise::affinity {

/// What the groups of a class took, in segments; `leader`: the group that took most, or none, when that was the undivided rest.
struct Growth {
  std::uint32_t all, most;
  NodeId leader;

  static constexpr std::uint32_t kLittle = 16;
  bool pays() const noexcept { return all >= kLittle && std::uint64_t{most} * 16 < std::uint64_t{all} * 15; }
};

/// Of one size class. All zero is open. Not synchronised.
struct ClassUse {
  static constexpr std::uint32_t kLeaseFirst = 4096, kLeaseMax = 1u << 20;
  static constexpr std::uint32_t kSamplesOfOthers = 32, kNeededMax = 1u << 24;
  static constexpr std::uint64_t kFirstLook = 8 * kLeaseFirst;

  std::uint64_t objects;     ///< looked up since the class was opened: leases that are used up
  std::uint64_t next_look;
  std::uint32_t undivided;   ///< segments taken by the pool of the class
  NodeId leader;             ///< when it was closed
  std::uint32_t samples, others, others_needed;
  bool is_closed;
  bool is_mixed;  ///< some of its objects share a pool with objects of other sizes: it stays open

  /// What so many objects of a pool that forwards would have taken, had none of them been released.
  static constexpr std::uint32_t segments_of(std::uint64_t objects, std::size_t stride) noexcept {
    return static_cast<std::uint32_t>(objects * stride / 4096);
  }
  /// How many objects a head may look up next.
  std::uint32_t lease() const noexcept {
    const std::uint64_t quarter = objects / 4;
    return static_cast<std::uint32_t>(quarter < kLeaseFirst ? kLeaseFirst : quarter < kLeaseMax ? quarter : kLeaseMax);
  }
  /// Whether it is time to look whether it pays.
  bool is_due() noexcept {
    if (!next_look) next_look = kFirstLook;
    if (objects < next_look) return false;
    while (next_look <= objects) next_look *= 2;
    return true;
  }
  void close(NodeId by) noexcept {
    const std::uint32_t needed = others_needed ? others_needed * 2 : 8;
    *this = {.leader = by, .others_needed = needed < kNeededMax ? needed : kNeededMax, .is_closed = true};
  }
  /// A sample was of the group that the class was closed for, or not. True: the class is open again, for a trial.
  bool opens(bool is_of_leader) noexcept {
    ++samples;
    others += !is_of_leader;
    const bool by_others = others >= others_needed && std::uint64_t{others} * 8 >= samples;
    if (!by_others && samples < others_needed * kSamplesOfOthers) return false;
    *this = {.leader = kNoNode, .others_needed = others_needed, .is_mixed = is_mixed};
    return true;
  }
};

}  // namespace mortise::affinity
