// How far a program swings: it takes a thousand blocks, then frees a thousand. What a cache learns from its misses.
//
//   blocks out      ╱╲      ╱╲      ╱╲      swings alike, one after the other: steady, the program works in batches
//                __╱  ╲____╱  ╲____╱  ╲__
//
//                        ╱╲
//                   ╱╲__╱  ╲                there and back, each by half of what the magazine may hold and more, in the order of their
//                __╱        ╲____           addresses: returning, the program builds what it then takes down
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// How many blocks went one way (below zero: down) since a miss went the other way, and how many went before that. Any thread; where two
/// count at a time, a swing is off by the blocks of one.
class Swing {
 public:
  static constexpr unsigned kMost = 1'000'000;  ///< longer ones are not counted to their end
  static constexpr unsigned kShare = 24;        ///< a magazine may hold such a part of any swing
  static constexpr unsigned kSteady = 16;       ///< so many in a row that are alike are no accident

  /// The limit of the magazine that has missed, before it grows for that.
  void miss_at(unsigned limit) noexcept { limit_.store(limit, Order::relaxed); }
  /// Counts the blocks of a miss.
  [[gnu::noinline]] void count(std::int32_t moved) noexcept {
    std::int32_t now = now_.load(Order::relaxed);
    if ((now < 0) != (moved < 0)) {
      compare(magnitude(now), magnitude(earlier_.load(Order::relaxed)), magnitude(moved));
      earlier_.store(before_.load(Order::relaxed), Order::relaxed);
      before_.store(now, Order::relaxed);
      hit_earlier_.store(hit_before_.load(Order::relaxed), Order::relaxed);
      hit_before_.store(hit_now_.load(Order::relaxed), Order::relaxed);
      hit_now_.store(limit_.load(Order::relaxed), Order::relaxed);
      now = 0;
    }
    if (magnitude(now) < kMost) now += moved;
    now_.store(now, Order::relaxed);
  }
  /// Looks at some of `n` blocks that go home together: whether one and the next lie close together, as they do where a program takes down
  /// in the order in which it built.
  void note_order(std::byte* const* home, unsigned n) noexcept {
    if (n < 2) return;
    const unsigned looks = n - 1 < kLooks ? n - 1 : kLooks, step = (n - 1) / looks;
    unsigned close = 0;
    for (unsigned i = 0; i < looks; ++i) close += is_close(home[i * step], home[i * step + 1]);
    const bool in_order = 2 * close >= looks;
    const std::int32_t order = order_.load(Order::relaxed);
    if (in_order ? order < kSure : order > -kSure) order_.store(in_order ? order + 1 : order - 1, Order::relaxed);
  }
  /// How many blocks a magazine may hold for the longer of this swing and the last, up to `few`; 0 if it is short.
  unsigned share(unsigned few) const noexcept {
    const unsigned part = longer() / kShare;
    return part == 0 ? 0 : part < kLeast ? kLeast : part < few ? part : few;
  }
  /// How many to hold a steady swing, with what does not miss since the magazine has it; 0 while it is not steady.
  unsigned steady(unsigned limit) const noexcept { return alike_.load(Order::relaxed) < kSteady ? 0 : longer() + limit; }
  /// How many to hold the longest swing that returned: as much went the other way next, each time `least` and half of what the magazine
  /// could hold. A quarter is for the next one to be longer by. A program that takes and frees as it happens has no such swings: each
  /// further miss in the same direction is half as likely. 0 while blocks go home in no order: what they are taken for next would lie
  /// about, where the way through the spans sorts them. Nor do they keep an order while they wait: with every swing that is not as long
  /// as the last they get further apart, so 0 for good once a swing is longer than `near`, what a cache finds without one.
  unsigned returning(unsigned limit, unsigned least, unsigned near) noexcept {
    if (order_.load(Order::relaxed) <= 0) return 0;
    const unsigned before = magnitude(before_.load(Order::relaxed)), earlier = magnitude(earlier_.load(Order::relaxed));
    const unsigned both = before < earlier ? before : earlier;
    unsigned most = returning_.load(Order::relaxed);
    if (both >= least && both >= limit / 2) {
      const unsigned there = before + hit_before_.load(Order::relaxed), back = earlier + hit_earlier_.load(Order::relaxed);
      const unsigned all = (there < back ? there : back) + both / 4;
      if (all > most) returning_.store(most = all, Order::relaxed);
    }
    return most - most / 5 > near ? 0 : most;  // without the quarter
  }
  void forget() noexcept {
    now_.store(0, Order::relaxed);
    before_.store(0, Order::relaxed);
    earlier_.store(0, Order::relaxed);
    alike_.store(0, Order::relaxed);
    returning_.store(0, Order::relaxed);
    order_.store(0, Order::relaxed);
    for (auto* hit : {&hit_now_, &hit_before_, &hit_earlier_}) hit->store(0, Order::relaxed);
  }

 private:
  static constexpr unsigned kLeast = 4, kTolerance = 8, kTrust = 4 * kSteady;
  static constexpr unsigned kLooks = 16;                 ///< at a batch; more say no more
  static constexpr std::int32_t kSure = 8;               ///< as many batches of the other kind change its mind
  static constexpr std::uintptr_t kCloseBytes = 64_KiB;  ///< of one span, mostly

  static bool is_close(const std::byte* a, const std::byte* b) noexcept {
    return (reinterpret_cast<std::uintptr_t>(a) ^ reinterpret_cast<std::uintptr_t>(b)) < kCloseBytes;
  }

  unsigned longer() const noexcept {
    const unsigned now = magnitude(now_.load(Order::relaxed)), before = magnitude(before_.load(Order::relaxed));
    return now > before ? now : before;
  }
  static unsigned magnitude(std::int32_t n) noexcept { return static_cast<unsigned>(n < 0 ? -n : n); }
  /// With the last one that went the same way: alike to an eighth and a miss. One of a single miss says nothing, any program has many;
  /// and what was steady is so for some more, since swings seem shorter once a magazine holds more.
  void compare(unsigned swing, unsigned last, unsigned a_miss) noexcept {
    const unsigned apart = swing > last ? swing - last : last - swing, alike = alike_.load(Order::relaxed);
    if (apart > last / kTolerance + a_miss) alike_.store(alike / 2, Order::relaxed);
    else if (swing >= 2 * a_miss && alike < kTrust) alike_.store(alike + 1 == kSteady ? kTrust : alike + 1, Order::relaxed);
  }

  Atomic<std::int32_t> now_, before_, earlier_;
  Atomic<std::uint32_t> hit_now_, hit_before_, hit_earlier_;  ///< blocks that each went before it began to miss: what the magazine held
  Atomic<std::uint32_t> limit_;
  Atomic<std::int32_t> order_;  ///< of late more batches went home in order, or (below 0) in none
  Atomic<std::uint32_t> alike_, returning_;
};

}  // namespace mortise
