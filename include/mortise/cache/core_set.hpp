// What a core has: its magazines, the slots that they begin with, and what each class's swings have taught.
//
//   rack   │ top, base, limit of each magazine │ ──► slots   ┌ 254 ┬ 254 ┬ ... ┐   a magazine of each class
//                            │                                └─────┴─────┴─────┘
//                            └ may hold more ──────► slots of its own, as many as its class may ever hold, made when its swings ask for
//                                                    them and moved to while no section finds the rack
//
// Used by cache/core_cache.hpp. All zero is a valid set, once its magazines have slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/cache/magazine_slots.hpp"
#include "mortise/cache/swing.hpp"
#include "mortise/core/core.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// For size classes `Classes`, of which a magazine keeps `kBytesPerClass` bytes.
template <SizeMap Classes, std::size_t kBytesPerClass> struct CoreSet {
  using Rack = os::Rack<Classes::kCount + 1>;
  static constexpr auto kSlots = magazine_slots<Classes>(kBytesPerClass, os::kMagazineSlots);
  static constexpr auto kLongSlots = magazine_slots<Classes>(64 * kBytesPerClass, os::kLongMagazineSlots);
  static constexpr std::size_t kRoomBytesMax = 768 * kBytesPerClass;  ///< of all magazines

  static constexpr unsigned kBatchMax = os::kMagazineSlots / 2;
  static constexpr unsigned kFewAtOnce = kBatchMax < 32 ? kBatchMax : 32;  ///< while nobody knows what a magazine may hold

  Rack rack;
  Swing swing[Classes::kCount + 1];
  bool is_long[Classes::kCount + 1];
  std::uint32_t number;            ///< the core's
  Atomic<std::uint32_t> widening;  ///< somebody changes a limit
  std::byte* slot[Classes::kCount][os::kMagazineSlots];

  void place(std::uint32_t core) noexcept {
    number = core;
    for (unsigned c = 1; c <= Classes::kCount; ++c) rack.place(c, slot[c - 1]);
  }

  /// How many blocks a magazine that may hold `limit` asks for, or gives up, at once.
  static constexpr unsigned batch_of(unsigned limit) noexcept { return limit / 2 < kBatchMax ? limit / 2 : kBatchMax; }
  /// Whether what a class swings matters: one whose magazine may never hold more does not count it.
  static constexpr bool swings(unsigned c) noexcept { return kSlots[c] < kLongSlots[c]; }
  /// Of what a class may hold each of `share` cores has its part.
  static unsigned part(unsigned n, unsigned share) noexcept {
    const unsigned some = share == 1 ? n : n / share;
    return some < kMagazineLeast ? kMagazineLeast : some;
  }
  /// What a magazine of class `c` may hold at first.
  static unsigned first_limit(unsigned c, unsigned share) noexcept {
    const unsigned own = part(kSlots[c], share);
    return own < kFirstLimit ? own : kFirstLimit;
  }
  /// So many came from below; less than 0: went there, from `home` on.
  void note_swing(unsigned c, std::int32_t moved, std::byte* const* home) noexcept {
    swing[c].count(moved);
    if (moved < 0 && is_small(c)) swing[c].note_order(home, static_cast<unsigned>(-moved));
  }
  /// What one whose limit is `now` may hold next: twice as much, up to what its class may hold and `most`. The second-level cache has
  /// `near_bytes`.
  unsigned wider(unsigned c, unsigned now, unsigned share, std::size_t near_bytes, unsigned most) noexcept {
    swing[c].miss_at(now);
    const unsigned wish = now ? 2 * now : first_limit(c, share), may = may_hold(c, now, share, near_bytes);
    return wish < may && wish < most ? wish : may < most ? may : most;
  }

 private:
  static constexpr unsigned kFirstLimit = 4;

  /// Blocks so small that a magazine's first slots hold less of them than a class may keep cost more on their way home and back than they
  /// take while they wait.
  static constexpr bool is_small(unsigned c) noexcept { return kSlots[c] == os::kMagazineSlots; }

  /// So many blocks of a class and their slots are near: one and a half times the second-level cache, which finds most of them.
  static unsigned fit_near(unsigned c, std::size_t near_bytes) noexcept {
    return static_cast<unsigned>(near_bytes / 2 * 3 / (Classes::size_of(c) + sizeof(std::byte*)));
  }

  unsigned may_hold(unsigned c, unsigned now, unsigned share, std::size_t near_bytes) noexcept {
    const unsigned own = part(kSlots[c], share);
    if (!swings(c)) return own;
    unsigned wish = swing[c].share(os::kMagazineSlots);
    const unsigned steady = swing[c].steady(now);
    const unsigned returning = is_small(c) ? swing[c].returning(now, os::kMagazineSlots, fit_near(c, near_bytes)) : 0;
    for (const unsigned all : {steady, returning}) wish = all > wish ? all : wish;
    wish = part(wish < kLongSlots[c] ? wish : kLongSlots[c], share);
    if (wish <= own) return own;
    return wish > now && room_bytes<Classes>(rack) >= kRoomBytesMax / share ? (now > own ? now : own) : wish;
  }
};

}  // namespace mortise
