// A quarantine that is its own cache: a released block waits until others have been released, then the next malloc of its size has it.
//
//   release ──► ring of this thread ( newest ........................... oldest ) ── ring full ──► below, a few at a time
//                    │ in the list of its size                  │ has waited kBytes
//                    └──────────────────────────────────────────┴──► malloc of its size ── done
//
//   Entry   ┌───────┬──────────┬────────────┬───────┬───────┐     list of a size: oldest ──► ... ──► newest,
//           │ block │ freed at │ clock then │ units │ class │                     through `after`, a word for each entry
//           └───────┴──────────┴────────────┴───────┴───────┘
//
// DelayedFree over a cache moves each block twice, and its malloc finds what the cache has left; here a block that has waited long
// enough lies where the next malloc looks. Whoever waits longest is at the ring's end, and first in the list of its size: both are one
// order. Sizes are those of `SizeClassesT`, to which requests up to 4 KiB are rounded up; what has no size of its own waits too, and goes
// below in its turn. Blocks larger than half of kBytes do not stay.
//
// Entries carry the place of the release, so that a second one can name the first.
// A signal handler may come between any two instructions: one that finds its thread at work here goes past the quarantine.
//
// A block waits for kBytes of later releases; what waits is kBytes + kSpare at most. A block under an entry's share of these counts as
// that share.
// Bound: O(1); the release that finds the ring full passes kAtOnce blocks on. Without memory, a malloc gives back what its thread keeps.
// Progress: hit wait-free; misses as below. Source: delayed free as in [Mortise24]; quarantines as in [Serebryany12]; kept by size as
// in [BonwickAdams01].
// Placement: directly above a backbone without size classes that takes back many blocks at once (BoundaryTag, Tlsf); HeaderMagic and
// TailChecksum above it see the program's own releases.
#pragma once

#include <array>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/thread_list.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kBytes` (4 KiB..1 MiB): later releases that a block waits for, a thread.
/// `kSpare` (0..1 MiB): so much more may wait, for mallocs to come.
/// `SizeClassesT`: which sizes are given out again from here, tags included.
/// `kBlocks` (16..32768, power of two): the most blocks that wait, a thread.
template <std::size_t kBytes = 64_KiB, std::size_t kSpare = 64_KiB,
          PlainSizeMap SizeClassesT = classes::Geometric<16, 4_KiB>, unsigned kBlocks = 2048>
struct DelayedReuse {
  static_assert(is_power_of_two(kBlocks) && kBlocks >= 16 && kBlocks <= 32768, "the ring's length is a power of two, 16 to 32768");
  static constexpr const char* kName = "DelayedReuse";
  static constexpr const char* kWhat = "a quarantine a thread, out of which a malloc of the size takes what has waited long enough";
  static constexpr const char* kNeeds = "a backbone directly below that takes back many blocks at once (BoundaryTag, Tlsf)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("bytes", kBytes).number("spare", kSpare)
        .number("blocks", kBlocks);
  }

  template <Locates Below> requires Tagged<Below> class Over : public Locked<Below, FutexLock> {
    using Map = SizeClassesT;
    using Index = std::uint16_t;
    static constexpr std::size_t kTag = Below::kTag;
    static constexpr std::size_t kChunkMax = Map::kMaxBytes < 4_KiB ? Map::kMaxBytes : 4_KiB;
    static constexpr std::size_t kRequestMax = kChunkMax - kTag;
    static constexpr unsigned kClasses = Map::class_of(kChunkMax);
    static constexpr unsigned kUnitLog2 = log2_floor(kMinAlign);
    static constexpr unsigned kAtOnce = 8;
    static constexpr std::size_t kRoom = kBytes + kSpare, kStayMax = kBytes / 2;
    static constexpr Index kNone = 0xffff;
    static_assert(kStayMax >> kUnitLog2 < kNone, "a block's size in units has room in an entry");

    struct Entry {
      std::byte* block;          ///< null: none, or given out again; others glance at it
      const void* freed_at;
      std::uint32_t came_at;     ///< by the thread's clock
      Index units;               ///< of the chunk
      std::uint8_t size_class;   ///< 0: of no class's size
    };
    enum State : std::uint8_t { kClosed, kOpen, kAtWork };

   public:
    static constexpr Progress kProgress = {Guarantee::wait_free, Below::kProgress.refill, Below::kProgress.grow};
    static constexpr bool kTakesUnsized = true;

    /// All zero: a thread that has not attached, whose calls go below. Written by its thread alone; others glance at entries, but never
    /// at the blocks in them, which may be gone.
    struct Thread {
      State state = kClosed;
      std::uint32_t clock = 0;   ///< bytes released so far; wraps
      std::int32_t room = 0;     ///< bytes that may still come
      std::uint32_t newest = 0;  ///< where the next one goes; counts on and on
      std::uint32_t oldest = 0;  ///< no block lies before it
      Shared<Thread*> next;      ///< in the list of attached threads; under the lock
      Shared<Thread*> prev;
      Index last[kClasses + 1] = {};             ///< of each size, the newest; its list's head where there is none
      Index after[kBlocks + kClasses + 1] = {};  ///< the next newer of its size; behind the blocks', the lists' heads
      Entry entry[kBlocks] = {};
      [[no_unique_address]] typename Below::Thread below{};
    };

    /// Yes when the oldest of the size has waited long enough.
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.size > kRequestMax || r.align > kMinAlign || t.state != kOpen) [[unlikely]] return {};
      const unsigned c = class_for(r.size), head = kBlocks + c;
      set_state(t, kAtWork);
      const Index at = t.after[head];
      if (at == kNone || t.clock - t.entry[at].came_at < kBytes) [[unlikely]] {
        set_state(t, kOpen);
        return {};
      }
      std::byte* const p = t.entry[at].block;
      show(t.entry[at].block, static_cast<std::byte*>(nullptr));
      unlink_first(t, c, at);
      t.room += cost_of(Map::size_of(c));
      if (const Index soon = t.after[head]; soon != kNone) __builtin_prefetch(t.entry[soon].block, 1);  // it was left long ago
      set_state(t, kOpen);
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Map::size_of(c) - kTag};
    }
    /// Yes when the ring has room.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      const std::size_t bytes = b.is_unsized() ? this->below.chunk_bytes_of(b.ptr) : b.size + kTag;
      if (bytes > kStayMax || t.state != kOpen) [[unlikely]] return false;
      set_state(t, kAtWork);
      const bool fits = has_room(t, cost_of(bytes));
      if (fits) [[likely]] enter(t, b.ptr, bytes, call_site());
      set_state(t, kOpen);
      return fits;
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size <= kRequestMax) r.size = Map::size_of(class_for(r.size)) - kTag;
      if (const Block b = this->below.allocate(t.below, r)) [[likely]] return b;
      return empty(t) ? this->below.allocate(t.below, r) : Block{};
    }
    void release(Thread& t, Block b) noexcept { release_from(t, b, call_site()); }

    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }

    /// Where the block at `p` was released, when it waits in some quarantine; null otherwise, and when somebody is just being attached,
    /// detached or counted: a report waits for no lock. O(blocks).
    const void* freed_at(const std::byte* p) noexcept {
      if (!this->lock_.try_lock()) return nullptr;
      const void* place = nullptr;
      for (const Thread* t = threads_.first(); t && !place; t = t->next)
        for (const Entry& e : t->entry)
          if (glance(e.block) == p) place = glance(e.freed_at);
      this->lock_.unlock();
      return place;
    }

    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      for (unsigned c = 0; c <= kClasses; ++c) {
        t.last[c] = static_cast<Index>(kBlocks + c);
        t.after[kBlocks + c] = kNone;
      }
      t.room = kRoom;
      {
        Held held(this->lock_);
        threads_.push(&t);
      }
      set_state(t, kOpen);
    }
    /// What waits goes below; the record may be used for another thread.
    void detach(Thread& t) noexcept {
      if (t.state != kClosed) {
        set_state(t, kAtWork);  // what a signal handler releases from here on goes below
        pass_on(t, kBlocks);
        set_state(t, kClosed);
        Held held(this->lock_);
        threads_.remove(&t);
      }
      detach_below(this->below, t.below);
    }
    /// Puts back what this thread's quarantine holds.
    std::size_t trim(Thread& t) noexcept {
      empty(t);
      return trim_below(this->below, t.below);
    }
    /// Exact when threads rest.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (const Thread* t = threads_.first(); t; t = t->next)
        for (const Entry& e : t->entry)
          if (glance(e.block)) u.move_to_cache(std::size_t{glance(e.units)} << kUnitLog2);
    }

   private:
    /// The class of the chunk that a request makes.
    MORTISE_HOT static unsigned class_for(std::size_t size) noexcept {
      return Map::class_of((size < Below::kChunkMin - kTag ? Below::kChunkMin - kTag : size) + kTag);
    }
    static constexpr std::int32_t cost_of(std::size_t bytes) noexcept {
      return static_cast<std::int32_t>(bytes > kRoom / kBlocks ? bytes : kRoom / kBlocks);
    }
    /// Of a chunk of so many units; 0 where no class has just this size.
    static constexpr auto make_classes() noexcept {
      std::array<std::uint8_t, (kStayMax >> kUnitLog2) + 1> classes{};
      for (std::size_t bytes = kMinAlign; bytes <= kChunkMax && bytes <= kStayMax; bytes += kMinAlign)
        if (const unsigned c = Map::class_of(bytes); Map::size_of(c) == bytes) classes[bytes >> kUnitLog2] = static_cast<std::uint8_t>(c);
      return classes;
    }
    static constexpr auto kClassOf = make_classes();

    /// Seen by signal handlers of this thread: nothing moves across it.
    MORTISE_HOT static void set_state(Thread& t, State state) noexcept {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      show(t.state, state);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    MORTISE_HOT static bool has_room(const Thread& t, std::int32_t cost) noexcept {
      return t.room >= cost && !t.entry[t.newest % kBlocks].block;
    }
    MORTISE_HOT static void enter(Thread& t, std::byte* p, std::size_t bytes, const void* site) noexcept {
      const auto at = static_cast<Index>(t.newest++ % kBlocks);
      const std::size_t units = bytes >> kUnitLog2;
      const unsigned c = kClassOf[units];
      Entry& e = t.entry[at];
      e.came_at = t.clock += static_cast<std::uint32_t>(cost_of(bytes));
      e.size_class = static_cast<std::uint8_t>(c);
      show(e.units, static_cast<Index>(units));
      show(e.freed_at, site);
      show(e.block, p);
      t.after[t.last[c]] = at;  // of no class: a list that nobody takes from
      t.last[c] = at;
      t.after[at] = kNone;
      t.room -= cost_of(bytes);
    }
    /// `at` is the first in the list of `c`.
    MORTISE_HOT static void unlink_first(Thread& t, unsigned c, Index at) noexcept {
      const Index next = t.after[at];
      t.after[kBlocks + c] = next;
      if (next == kNone) t.last[c] = static_cast<Index>(kBlocks + c);
    }

    [[gnu::noinline]] void release_from(Thread& t, Block b, const void* site) noexcept {
      const std::size_t bytes = b.is_unsized() ? this->below.chunk_bytes_of(b.ptr) : b.size + kTag;
      if (bytes > kStayMax || t.state != kOpen) return this->below.release(t.below, b);
      set_state(t, kAtWork);
      while (!has_room(t, cost_of(bytes))) pass_on(t, kAtOnce);
      enter(t, b.ptr, bytes, site);
      set_state(t, kOpen);
    }
    /// Everything that waits goes below; returns whether it was anything.
    bool empty(Thread& t) noexcept {
      if (t.state != kOpen) return false;
      set_state(t, kAtWork);
      const bool any = pass_on(t, kBlocks) > 0;
      set_state(t, kOpen);
      return any;
    }
    /// The oldest go below, as many as `most`; returns how many they were.
    unsigned pass_on(Thread& t, unsigned most) noexcept {
      std::byte* batch[kAtOnce];
      unsigned n = 0, total = 0;
      if (t.newest - t.oldest > kBlocks) t.oldest = t.newest - kBlocks;  // places that were used again have been left before
      for (; t.oldest != t.newest && total < most; ++t.oldest) {
        const auto at = static_cast<Index>(t.oldest % kBlocks);
        Entry& e = t.entry[at];
        if (!e.block) continue;
        batch[n++] = e.block;
        ++total;
        show(e.block, static_cast<std::byte*>(nullptr));
        unlink_first(t, e.size_class, at);
        t.room += cost_of(std::size_t{e.units} << kUnitLog2);
        if (n == kAtOnce) this->below.release_some(t.below, batch, n), n = 0;
      }
      if (n) this->below.release_some(t.below, batch, n);
      return total;
    }

    ThreadList<Thread> threads_;
  };
};

}  // namespace mortise
