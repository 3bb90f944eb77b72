// The model that random operations are checked against: which blocks are live, where they lie, and what is in them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/property/places.hpp"
#include "tests/support/stage.hpp"
#include "tests/support/stacks.hpp"

namespace mortise::test {

/// Small, fast and the same everywhere, so that a seed replays. [Vigna14] splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return n ? next() % n : 0; }
  /// Sizes as programs ask for them: mostly small, each power of two about as likely as the next, sometimes large.
  std::size_t size(std::size_t most) {
    const unsigned bits = static_cast<unsigned>(below(100) < 85 ? below(10) : below(100) < 90 ? below(15) : below(21));
    const std::size_t n = (std::size_t{1} << bits) + below(std::size_t{1} << bits);
    return n < most ? n : most;
  }

 private:
  std::uint64_t state_;
};

/// What is written into a block: a word of its own at both ends and once a page. Cheap enough to check at every release.
class Contents {
 public:
  static void write(Block b, std::uint64_t tag) noexcept {
    for_each_place(b, [&](std::byte* at) {
      const std::uint64_t word = tag ^ address_of(at);
      std::memcpy(at, &word, kBytes);
    });
  }
  /// Only the first `kept` bytes are asked about: the rest came later.
  static bool are(Block b, std::uint64_t tag, std::size_t kept, std::ptrdiff_t moved_by = 0) noexcept {
    bool same = true;
    for_each_place(b, [&](const std::byte* at) {
      if (at + kBytes > b.ptr + kept) return;
      std::uint64_t word;
      std::memcpy(&word, at, kBytes);
      same = same && word == (tag ^ (address_of(at) - static_cast<std::uintptr_t>(moved_by)));
    });
    return same;
  }

 private:
  static constexpr std::size_t kBytes = 8, kEvery = 4096;
  template <class Visit> static void for_each_place(Block b, Visit&& visit) noexcept {
    for (std::size_t at = 0; at + kBytes <= b.size; at += kEvery) visit(b.ptr + at);
    if (b.size >= 2 * kBytes) visit(b.ptr + b.size / kBytes * kBytes - kBytes);  // meets another word wholly or not at all
  }
};

/// The blocks that a program holds, and the checks of each.
struct Ledger {
  struct Held {
    Block block;
    std::uint64_t tag;
  };

  Ledger(std::uint64_t seed_, Traits traits_) : random(seed_), traits(traits_) {}

  std::size_t room() const { return traits.room_bytes / 4 > live_bytes ? traits.room_bytes / 4 - live_bytes : 0; }

  /// A block that the heap has just given: it must overlap none and be as asked.
  void take(Block b, Request r);
  Held give(std::size_t i);

  Random random;
  Traits traits;
  std::vector<Held> held;
  Places places;
  std::size_t live_bytes = 0;
};

/// A heap, its logical threads and the blocks they hold. Each call of the heap is compiled once, not wherever an operation makes it: its
/// layers are inlined into one another, and there are many stacks.
template <class H> struct State : Ledger {
  State(std::uint64_t seed_, unsigned threads, Traits traits_) : Ledger(seed_, traits_), stage(threads) {}

  unsigned any_thread() { return static_cast<unsigned>(random.below(stage.thread_count())); }

  [[gnu::noinline]] Block allocate(unsigned thread, Request r) {
    return stage.as(thread, [&](H& h, auto& t) { return h.allocate(t, r); });
  }
  /// malloc's hit path: what the topmost cache gives, if anything.
  [[gnu::noinline]] Block allocate_hit(unsigned thread, Request r) {
    if constexpr (Hits<H>) return stage.as(thread, [&](H& h, auto& t) { return h.allocate_hit(t, r); });
    else return {};
  }
  [[gnu::noinline]] void release(unsigned thread, Block b) {
    stage.as(thread, [&](H& h, auto& t) {
      if constexpr (Hits<H>) {
        if (b.size_class != kNoClass && h.release_hit(t, b)) return;
      }
      h.release(t, b);
    });
  }
  /// What the program passes to free: a pointer.
  [[gnu::noinline]] Block as_program_sees(Block b) {
    if constexpr (Locates<H>) {
      EXPECT_TRUE(stage.heap().holds(b.ptr));
      const Block found = stage.heap().block_of(b.ptr);
      return found.size_class == kNoClass ? stage.heap().measure(found) : found;
    } else {
      return b;
    }
  }

  /// No lost byte: what was taken from the source is live, cached or free.
  [[gnu::noinline]] void audit() {
    H& h = stage.heap();
    if constexpr (Audits<H>) h.audit();
    if constexpr (Tells<H>) {
      Usage u;
      h.tell(u);
      if (u.live == 0 && !Purges<H>) return;  // a source counts what is mapped only
      ASSERT_GE(u.live, live_bytes);
      ASSERT_TRUE(!traits.is_exact || u.live == live_bytes) << u.live << " live bytes instead of " << live_bytes;
      if constexpr (Purges<H>) {
        ASSERT_EQ(u.mapped, u.live + u.cached + u.dirty + u.purged);
      }
    }
  }

  Stage<H> stage;
};

}  // namespace mortise::test
