// Whether it pays to look up the callers of one size class: it does while what they are given stays, and is of several groups.
//
//   unasked ── the 33rd miss of the heap below ──► open
//   open ── at 256 KiB, 512 KiB, ... of objects ── one group has 63/64 of what they took, and 15/16 of them? ─┬► closed
//     ▲            from 1 MiB on ── less than an eighth of them stayed, or a 16th of the latest?             │
//     │                             or the class took less than 128 KiB since it was opened? ────────────────┘
//     ├──── of the samples since then, 4 (then 8, 16, ...) and one in eight were of others ────── closed
//     └──── or there were 256 of them (then 512, ...) ─────────────────────────────────────────────┘
//
// A group that has nearly all of the memory, while others' objects come and go among its own, keeps its pool: below, its objects would
// fill the holes that those leave, and lie in no order. The last rule is for groups that are allocated in turn, of which
// misses may meet always the same one. A closed class costs what the heap below costs. Its samples are some of that heap's misses.
// Before its objects have taken memory some dozens of times, a class is not looked at: a short program pays nothing for it.
// Objects that are allocated and freed over and over take no memory and make no misses: where they lie does not matter. But each pool
// of such objects keeps a line of its own warm. So groups whose objects come and go draw from the pool of their class while others'
// stay, and the object that was released last is the next one's place, whoever asks; until what that pool is asked for stays. Most of them
// are known by their early objects (Node::comes_and_goes) and never have a pool of their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/seam.hpp"
#include "mortise/core/units.hpp"

namespace mortise::affinity {

/// What was looked up in a class and what it took, since it was opened. In segments: `handed` is what all objects would have taken, had
/// none of them been released. `leader`: the group that took most, or none, when that was the undivided rest.
struct Growth {
  std::uint64_t handed, handed_to_leader;
  std::uint32_t all, most;
  NodeId leader;

  static constexpr std::uint32_t kLittle = 32;
  static constexpr unsigned kStays = 8, kStaysOfLatest = 16, kOfMemory = 64, kOfObjects = 16;

  /// What would have to stay lies together in the heap below as well.
  bool is_of_leader() const noexcept {
    return std::uint64_t{most} * kOfMemory >= std::uint64_t{all} * (kOfMemory - 1) &&
           handed_to_leader * kOfObjects >= handed * (kOfObjects - 1);
  }
  /// `before`: what it was at the last look.
  bool stays(const Growth& before) const noexcept {
    return all >= kLittle && std::uint64_t{all} * kStays >= handed &&
           std::uint64_t{all - before.all} * kStaysOfLatest >= handed - before.handed;
  }
  /// That one group has it all shows early; that little stays, not before an eighth of the objects would be 128 KiB.
  bool pays(const Growth& before) const noexcept {
    return is_of_leader() ? is_early() && all < kLittle : is_early() || stays(before);
  }
  bool is_early() const noexcept { return handed < kLittle * kStays; }
};

/// Of one size class. All zero is open, or not asked yet. Not synchronised.
struct ClassUse {
  static constexpr std::uint32_t kLeaseFirst = 4096, kLeaseMax = 1u << 20;
  static constexpr std::uint32_t kLeaseOfRest = 4 * kLeaseFirst;
  static constexpr std::uint64_t kSegmentsOfTrial = 4;
  static constexpr unsigned kTrialsMax = 8;
  static constexpr std::uint32_t kSamplesOfOthers = 64, kNeededMax = 1u << 24;
  static constexpr std::uint64_t kFirstLookBytes = 256_KiB;  ///< of objects: about what lies in pools for nothing when the class is closed

  std::uint64_t objects;     ///< looked up since the class was opened: leases that are used up
  std::uint64_t undivided_objects;  ///< those of them that are of no group
  std::uint64_t next_look;
  Growth last;               ///< at the last look
  std::uint32_t undivided;   ///< segments taken by the pool of the class
  std::uint32_t below;       ///< segments that the heap below took for pools that forward
  NodeId leader;             ///< when it was closed: whose objects are no reason to open it
  std::uint32_t samples, others, others_needed;
  std::uint32_t misses;      ///< of the heap below, before it is opened
  bool is_closed;
  bool is_mixed;  ///< some of its objects share a pool with objects of other sizes: it stays open

  std::uint32_t rest_seen, rest_grown;  ///< of `undivided`: at the last look, and since what it took began to stay

  static constexpr std::uint64_t segments_of(std::uint64_t objects, std::size_t stride) noexcept { return objects * stride / 4096; }
  /// Whether a group's objects come and go, as far as its pool tells: it was asked for several segments, more after each of the group's
  /// former `trials`, and took one, or less than an eighth of them and few. Objects that lie in the `had` segments that it took before the
  /// class was closed tell nothing, and if what lay there is released once meanwhile, as many again.
  static constexpr bool comes_and_goes(std::uint64_t objects, std::uint32_t grown, std::uint32_t had, std::size_t stride,
                                       unsigned trials) noexcept {
    const std::uint64_t handed = segments_of(objects, stride), told = std::uint64_t{2} * had,
                        beyond = handed > told ? handed - told : 0;
    return beyond >= kSegmentsOfTrial << 2 * trials && grown < Growth::kLittle && grown <= 1 + beyond / Growth::kStays;
  }
  /// How many objects a head may look up at first: what a trial takes.
  static constexpr std::uint32_t lease_of_trial(std::size_t stride) noexcept {
    return static_cast<std::uint32_t>(kSegmentsOfTrial * 4096 / stride + 1);
  }
  /// The pool of the class was asked for so many more: true if what it takes has begun to stay.
  bool rest_stays(std::uint32_t leased, std::size_t stride) noexcept {
    const std::uint32_t grown = undivided - rest_seen;
    rest_seen = undivided;
    const bool stays = std::uint64_t{grown} * Growth::kStays >= segments_of(leased, stride);
    rest_grown = stays ? rest_grown + grown : 0;
    if (rest_grown < Growth::kLittle) return false;
    rest_grown = 0;
    return true;
  }
  /// What the pool of the class took was a group's, which has a pool of its own again; `looked_up` objects were its own before.
  void forget_rest(std::uint64_t looked_up) noexcept {
    const std::uint64_t gone = undivided_objects + looked_up;
    objects -= gone < objects ? gone : objects;
    undivided_objects = 0;
    undivided = rest_seen = rest_grown = 0;
    last = {};
  }
  /// How many objects a head may look up next: a quarter of all, and not far beyond the next look.
  std::uint32_t lease() const noexcept {
    const std::uint64_t quarter = objects / 4, left = next_look > objects ? next_look - objects : kLeaseMax;
    const std::uint64_t most = left < kLeaseMax ? left : kLeaseMax, lease = quarter < kLeaseFirst ? kLeaseFirst : quarter;
    return static_cast<std::uint32_t>(lease < most ? lease : most);
  }
  /// Whether it is time to look whether it pays.
  bool is_due(std::size_t stride) noexcept {
    if (!next_look) next_look = kFirstLookBytes / stride;
    if (objects < next_look) return false;
    while (next_look <= objects) next_look *= 2;
    return true;
  }
  /// A look: whether the class stays open.
  bool stays_open(const Growth& now) noexcept {
    if (now.pays(last)) return last = now, true;
    close(now.is_early() || now.stays(last) ? now.leader : kNoNode);
    return false;
  }
  void close(NodeId by) noexcept {
    const std::uint32_t needed = others_needed ? others_needed * 2 : 4;
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

/// Which spans of the heap below were met before: what its misses meet for the first time is memory that it took. A span may be forgotten,
/// and counts again then. All zero: none. Not synchronised.
class SpansMet {
 public:
  static constexpr unsigned kSpanShift = 16, kRowsLog2 = 12;
  static constexpr std::uint32_t kSegments = (1u << kSpanShift) / 4096;

  bool is_new(std::uintptr_t address) noexcept {
    const std::uint64_t span = address >> kSpanShift;
    std::uint32_t& row = row_[span * 0x9E3779B97F4A7C15ull >> (64 - kRowsLog2)];
    if (row == static_cast<std::uint32_t>(span)) return false;
    row = static_cast<std::uint32_t>(span);
    return true;
  }

 private:
  std::uint32_t row_[1u << kRowsLog2];
};

}  // namespace mortise::affinity
