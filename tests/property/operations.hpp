// The operations of the property tests, one struct each: perform(State&) does one thing as some logical thread and checks it.
#pragma once

#include "tests/property/model.hpp"

namespace mortise::test {

struct Allocate {
  bool zeroed = false;
  template <class S> void perform(S& s) const {
    const Request r{.size = s.random.size(s.room() / 2), .zeroed = zeroed, .grows = s.random.below(4) == 0};
    const Block b = s.allocate(s.any_thread(), r);
    if (b) s.take(b, r);
  }
};

/// As malloc does: from the topmost cache, or else from below.
struct AllocateOf {
  std::size_t size;
  template <class S> void perform(S& s, unsigned thread) const {
    const Request r{.size = size};
    const Block hit = s.allocate_hit(thread, r), b = hit ? hit : s.allocate(thread, r);
    if (b) s.take(b, r);
  }
};
struct AllocateHit {
  template <class S> void perform(S& s) const { AllocateOf{s.random.size(s.room() / 2)}.perform(s, s.any_thread()); }
};

struct AllocateAligned {
  template <class S> void perform(S& s) const {
    const Request r{.size = s.random.size(s.room() / 4), .align = std::size_t{16} << s.random.below(13)};
    if (r.align > s.room() / 4) return;
    const Block b = s.allocate(s.any_thread(), r);
    if (b) s.take(b, r);
  }
};

/// By any thread, whoever allocated it.
struct Release {
  template <class S> void perform(S& s) const {
    if (!s.held.empty()) perform(s, s.random.below(s.held.size()), s.any_thread());
  }
  template <class S> void perform(S& s, std::size_t i, unsigned thread) const {
    s.release(thread, s.as_program_sees(s.give(i).block));
  }
};

/// Half of what is live, as at the end of a phase of a program.
struct ReleaseMany {
  template <class S> void perform(S& s) const {
    for (std::size_t n = s.held.size() / 2; n > 0; --n) Release{}.perform(s);
  }
};

struct Resize {
  template <class S> void perform(S& s) const {
    if (s.held.empty()) return;
    const auto old = s.give(s.random.below(s.held.size()));
    const std::size_t wish = s.random.below(4) ? old.block.size / 2 + s.random.below(old.block.size) : s.random.size(s.room() / 2);
    const Block b = s.stage.as(s.any_thread(), [&](auto& h, auto& t) {
      using H = std::remove_reference_t<decltype(h)>;
      if constexpr (Resizes<H>) {
        if (const Block in_place = h.resize_in_place(t, old.block, wish)) return in_place;
      }
      if constexpr (Moves<H>) {
        if (wish > old.block.size && old.block.size_class == kNoClass) return h.resize_by_moving(t, old.block, wish);
      }
      return Block{};
    });
    if (b) {
      const std::size_t kept = b.size < old.block.size ? b.size : old.block.size;
      const Block same{b.ptr, old.block.size};
      ASSERT_TRUE(Contents::are(same, old.tag, kept, b.ptr - old.block.ptr)) << "resizing changed what was in the block";
    }
    s.take(b ? b : old.block, {.size = b ? wish : 0});
  }
};

/// A phase of a program: many blocks of one size, and back again, often several times alike. Spans grow long, and caches keep more of them;
/// a few blocks stay, and hold what lies around them.
struct Swing {
  template <class S> void perform(S& s) const {
    const unsigned thread = s.any_thread(), times = s.random.below(4) ? 1 : 20;
    const std::size_t size = 1 + s.random.below(std::size_t{16} << s.random.below(11));
    const std::size_t most = s.room() / 4 / (size + 16), wish = s.random.below(times > 1 ? 150 : 1500);
    for (unsigned i = 0; i < times; ++i) {
      const std::size_t before = s.held.size();
      for (std::size_t n = wish < most ? wish : most; n > 0; --n) AllocateOf{size}.perform(s, thread);
      for (std::size_t at = s.held.size(); at-- > before;)
        if (s.random.below(100)) Release{}.perform(s, at, s.random.below(8) ? thread : s.any_thread());
    }
  }
};

/// Of what is taken a little more, for a while: blocks, spans and batches are refused.
struct Limit {
  template <class S> void perform(S& s) const {
    auto& h = s.stage.heap();
    using H = std::remove_reference_t<decltype(h)>;
    if constexpr (Limits<H> && Indexed<H>)
      h.set_limit_bytes(s.random.below(2) ? kNoLimit : h.taken_bytes() + s.random.below(4_MiB));
  }
};

/// A thread ends and another begins in its place.
struct ChangeThread {
  template <class S> void perform(S& s) const {
    const unsigned i = s.any_thread();
    s.stage.detach(i);
    s.stage.attach(i);
  }
};

struct Trim {
  template <class S> void perform(S& s) const {
    s.stage.as(s.any_thread(), [](auto& h, auto& t) { trim_below(h, t); });
  }
};

struct PurgeIdle {
  template <class S> void perform(S& s) const {
    auto& h = s.stage.heap();
    if constexpr (requires { h.purge_older_than(0); }) h.purge_older_than(~std::uint64_t{0});
    else if constexpr (Purges<std::remove_reference_t<decltype(h)>>) h.purge_idle();
  }
};

/// One operation, chosen by weight.
template <class S> void perform_any(S& s) {
  const std::size_t dice = s.random.below(100'000);
  // The more is live, the more is released: the heap breathes instead of growing for ever.
  const std::size_t full = s.held.size() > 6000 || s.room() == 0 ? 2 : 1;
  if (dice < 44'000 / full) return AllocateHit{}.perform(s);
  if (dice < 50'000 / full) return Allocate{}.perform(s);
  if (dice < 52'000 / full) return Allocate{.zeroed = true}.perform(s);
  if (dice < 54'000 / full) return AllocateAligned{}.perform(s);
  if (dice < 96'000) return Release{}.perform(s);
  if (dice < 99'900) return Resize{}.perform(s);
  if (dice < 99'950) return ChangeThread{}.perform(s);
  if (dice < 99'980) return PurgeIdle{}.perform(s);
  if (dice < 99'985) return Trim{}.perform(s);
  if (dice < 99'990) return Limit{}.perform(s);
  if (dice < 99'995) return Swing{}.perform(s);
  ReleaseMany{}.perform(s);
}

}  // namespace mortise::test
