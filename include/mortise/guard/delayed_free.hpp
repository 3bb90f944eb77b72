// A quarantine: a released block is given out again only after many others have been released.
//
//   release ──► ring of this thread ( newest ... oldest ) ──► below, an eighth of the ring at a time
//
// A use after free meets memory that is nobody's, not somebody else's object; with a fill it is found as well: what was zeroed when
// the block came must be zero when it goes. The quarantine is bounded by bytes and by number: every block costs at least
// kBytes / kBlocks. Blocks larger than half of it do not stay.
//
// Entries carry the place of the release, so that a second one can name the first.
//
// A signal handler may release between any two instructions: a slot is claimed by one instruction, and a handler that finds its
// thread draining goes past the quarantine. At worst one block is lost to a handler that drains what is just being written.
// When the OnFault slot goes on, the block leaves as if nothing had been written to it.
//
// Bound: O(1), but for the release that finds the ring full: it passes on an eighth of it. Progress: as below.
// Source: delayed free as in [Mortise24]; quarantines as in [Serebryany12].
// Placement: above caches, or it delays only what leaves them; HeaderMagic and TailChecksum above it see the program's own releases.
#pragma once

#include <array>

#include "mortise/core/core.hpp"
#include "mortise/data/thread_list.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/fill.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/policy/order.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kBytes` (1 KiB..64 MiB): the most that waits, a thread.
/// `Order`: which block leaves next.
/// `Fill`: what is done to its bytes meanwhile.
/// `kBlocks` (16..65536, power of two): the most blocks that wait, a thread.
/// `OnFault`: what comes after a write after free.
template <std::size_t kBytes = 64_KiB, QuarantineOrder Order = order::Fifo, QuarantineFill Fill = fills::Untouched,
          unsigned kBlocks = 1024, OnFaultPolicy OnFault = on_fault::Configured>
struct DelayedFree {
  static_assert(is_power_of_two(kBlocks) && kBlocks >= 16, "the ring's length is a power of two, 16 at least");
  static constexpr const char* kName = "DelayedFree";
  static constexpr const char* kWhat = "a quarantine a thread: released blocks wait until many others have been released";
  static constexpr const char* kNeeds = "a heap below that finds blocks by pointer; "
                                        "with a fill, none with a guard of tails: those stand above";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Order", Order::kName).policy("Fill", Fill::kName).policy("OnFault", OnFault::kName)
        .number("bytes", kBytes).number("blocks", kBlocks);
  }

  template <Locates Below> requires (Fill::kFillBytes == 0 || !Classed<Below> || !kSizesExactly<Below>)
  class Over : public Locked<Below, FutexLock> {
    struct None {};
    using Bytes = std::conditional_t<Classed<Below>, None, std::size_t>;
    struct Entry {
      std::uint64_t block;  ///< pointer, and in the upper 8 bits the size class; 0: none, or not written yet; others glance at it
      const void* freed_at;
      [[no_unique_address]] Bytes bytes;  ///< where no class tells how many
    };

   public:
    static constexpr bool kTakesUnsized = true;

    /// All zero: a thread that has not attached, whose releases go below at once. Written by its thread alone; others read `unclassed`
    /// and entries, but never the blocks in them, which may be gone.
    struct Thread {
      std::int64_t room = 0;  ///< bytes that may still come; below zero only for an instant
      bool is_open = false;
      bool is_draining = false;
      std::uint64_t unclassed = 0;  ///< bytes of the waiting blocks that have no size class
      std::uint32_t newest = 0;  ///< where the next one goes; counts on and on
      std::uint32_t oldest = 0;
      std::uint64_t random = 0;
      Shared<Thread*> next;  ///< in the list of attached threads; under lock_
      Shared<Thread*> prev;
      Entry entry[kBlocks] = {};
      [[no_unique_address]] typename Below::Thread below{};
    };

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return this->below.allocate(t.below, r); }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> { return this->below.allocate_hit(t.below, r); }

    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Classed<Below> {
      if (b.size_class == kNoClass) [[unlikely]] return false;
      const Stay stay = kStayOf[b.class_index()];
      if (!reserve(t.room, stay.cost)) [[unlikely]] return false;
      fill(b.ptr, stay.filled);
      enter(t, b, call_site());
      return true;
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept { release_from(t, b, call_site()); }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      return this->below.allocate_batch(t.below, c, out, n);
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      for (unsigned i = 0; i < n; ++i) release_from(t, {in[i], Below::Classes::size_of(c), c}, nullptr);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return this->below.resize_by_moving(t.below, b, n);
    }

    /// Where the block at `p` was released, when it waits in some quarantine; null otherwise, and when somebody is just being attached,
    /// detached or counted: a report waits for no lock. O(blocks).
    const void* freed_at(const std::byte* p) noexcept {
      if (!this->lock_.try_lock()) return nullptr;
      const void* place = nullptr;
      for (const Thread* t = threads_.first(); t && !place; t = t->next)
        for (const Entry& e : t->entry)
          if (pointer_in(glance(e.block)) == p) place = glance(e.freed_at);
      this->lock_.unlock();
      return place;
    }

    /// Puts back what this thread's quarantine holds.
    std::size_t trim(Thread& t) noexcept {
      drain(t, INT64_MAX / 2);
      return trim_below(this->below, t.below);
    }
    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      Held held(this->lock_);
      threads_.push(&t);
      if constexpr (Order::kDraws) t.random = os::entropy() | 1;
      t.room = kBytes;
      t.is_open = true;
    }
    void detach(Thread& t) noexcept {
      if (t.is_open) {
        t.is_open = false;
        t.room = INT64_MIN / 4;  // none, whatever leaves: what a signal handler releases from here on goes below
        drain(t, INT64_MAX / 2);
        t.room = 0;
        Held held(this->lock_);
        threads_.remove(&t);
      }
      detach_below(this->below, t.below);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (Thread* t = threads_.first(); t; t = t->next) {
        if constexpr (Classed<Below>)
          for (const Entry& e : t->entry)
            if (const Block b = block_in(glance(e.block)); b.size_class != kNoClass)
              u.in_transit(plain_class<typename Below::Classes>(b.class_index()), Below::Classes::size_of(b.class_index()), 1);
        u.move_to_cache(glance(t->unclassed));
      }
    }
    std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> { return this->below.check_all(t.below); }

    /// Looks at the blocks that wait here, which stay: as if it drained, so that no signal handler does meanwhile. O(blocks).
    void check_waiting(Thread& t) noexcept requires(Fill::kFillBytes > 0) {
      if (t.is_draining) return;
      t.is_draining = true;
      compiler_fence();
      for (const Entry& e : t.entry)
        if (e.block) check(this->below.measure(block_in(e.block)), e.freed_at);
      compiler_fence();
      t.is_draining = false;
    }

   private:
    static constexpr std::uint64_t kPointerBits = 56;
    static constexpr std::size_t kStayMax = kBytes / 2;
    static constexpr std::uint32_t kNeverStays = INT32_MAX;
    static constexpr std::size_t kCostLeast = (kBytes + kBlocks - 1) / kBlocks;  ///< each that has room has a place
    static constexpr std::size_t cost_of(std::size_t bytes) noexcept { return bytes > kCostLeast ? bytes : kCostLeast; }
    static constexpr std::size_t filled(std::size_t bytes) noexcept {
      return (bytes < Fill::kFillBytes ? bytes : Fill::kFillBytes) & ~std::size_t{15};
    }

    /// Whether there are blocks of which nothing is filled.
    static constexpr bool kSomeAreShort = [] {
      if constexpr (Classed<Below>) return Below::Classes::size_of(1) < kMinAlign; else return true;
    }();
    MORTISE_HOT static void fill(std::byte* p, std::size_t n) noexcept {
      if constexpr (Fill::kFillBytes)
        if (!kSomeAreShort || n) Fill::fill(p, n);
    }
    MORTISE_HOT static bool is_whole(const std::byte* p, std::size_t n) noexcept {
      if constexpr (Fill::kFillBytes) return (kSomeAreShort && !n) || Fill::is_whole(p, n);
      return true;
    }

    /// What is to be known of a class while a block of it waits.
    struct Stay {
      std::uint32_t cost;
      std::uint32_t filled;
    };
    static constexpr auto make_stays() noexcept {
      std::array<Stay, Below::Classes::kCount + 1> stays{};
      if constexpr (Classed<Below>)
        for (unsigned c = 1; c <= Below::Classes::kCount; ++c) {
          const std::size_t bytes = Below::Classes::size_of(c);
          stays[c] = {bytes > kStayMax ? kNeverStays : static_cast<std::uint32_t>(cost_of(bytes)),
                      static_cast<std::uint32_t>(filled(bytes))};
        }
      return stays;
    }
    static constexpr auto kStayOf = make_stays();

    static std::byte* pointer_in(std::uint64_t block) noexcept {
      return reinterpret_cast<std::byte*>(block & ((std::uint64_t{1} << kPointerBits) - 1));
    }
    static Block block_in(std::uint64_t block) noexcept { return {pointer_in(block), 0, static_cast<unsigned>(block >> kPointerBits)}; }

    /// One instruction: a handler that comes after it claims the next slot.
    MORTISE_HOT static std::uint32_t claim(std::uint32_t& counter) noexcept {
#if defined(__x86_64__)
      std::uint32_t slot = 1;
      asm volatile("xaddl %0, %1" : "+r"(slot), "+m"(counter) : : "cc");
      return slot;
#else
      return __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
#endif
    }
    /// One instruction that takes `cost` out of the room; no, and nothing taken, when there is not so much.
    MORTISE_HOT static bool reserve(std::int64_t& room, std::int64_t cost) noexcept {
#if defined(__x86_64__)
      bool is_short;
      asm volatile("subq %2, %0" : "+m"(room), "=@ccs"(is_short) : "r"(cost) : );
#else
      const bool is_short = __atomic_sub_fetch(&room, cost, __ATOMIC_RELAXED) < 0;
#endif
      if (is_short) [[unlikely]] give_back(room, cost);
      return !is_short;
    }
    MORTISE_HOT static void give_back(std::int64_t& room, std::int64_t cost) noexcept {
#if defined(__x86_64__)
      asm volatile("addq %1, %0" : "+m"(room) : "r"(cost) : "cc");
#else
      __atomic_add_fetch(&room, cost, __ATOMIC_RELAXED);
#endif
    }
    MORTISE_HOT static void enter(Thread& t, Block b, const void* site) noexcept {
      Entry& e = t.entry[claim(t.newest) % kBlocks];
      show(e.freed_at, site);
      if constexpr (!Classed<Below>) e.bytes = b.size;
      show(e.block, address_of(b.ptr) | std::uint64_t{b.size_class} << kPointerBits);
    }

    /// A block that comes with a class needs no measuring; one without is measured here, and again when it leaves if others have classes.
    void release_from(Thread& t, Block b, const void* site) noexcept {
      if (b.is_unsized() || b.size_class != kNoClass) b = sized({b.ptr, 0, b.class_index()});  // of a class, as it leaves
      if (b.size > kStayMax || !t.is_open || t.is_draining) return this->below.release(t.below, b);
      fill(b.ptr, filled(b.size));
      const auto cost = static_cast<std::int64_t>(cost_of(b.size));
      if (!reserve(t.room, cost)) {
        drain(t, cost + static_cast<std::int64_t>(kBytes / 8));
        if (!reserve(t.room, cost)) return this->below.release(t.below, b);
      }
      if (b.size_class == kNoClass) show(t.unclassed, t.unclassed + b.size);
      enter(t, b, site);
    }

    /// Passes the oldest on until there is room for `wanted` bytes, or none is left.
    [[gnu::noinline]] void drain(Thread& t, std::int64_t wanted) noexcept {
      if (t.is_draining) return;
      t.is_draining = true;
      const std::int64_t missing = wanted - t.room;
      const std::uint32_t newest = t.newest;
      std::int64_t freed = 0;
      Batch batch{this->below, t.below};
      for (std::uint32_t oldest = t.oldest; oldest != newest && freed < missing; t.oldest = ++oldest) {
        if constexpr (Order::kDraws) draw(t);
        Entry& e = t.entry[oldest % kBlocks];
        const std::uint64_t block = e.block;
        [[maybe_unused]] const void* const site = e.freed_at;
        show(e.block, std::uint64_t{0});
        Block b = block_in(block);
        if constexpr (!Classed<Below>) b.size = e.bytes;
        if constexpr (Hits<Below> && Classed<Below>)
          if (b.size_class != kNoClass) [[likely]] {
            const Stay stay = kStayOf[b.class_index()];
            freed += stay.cost;
            if (!is_whole(b.ptr, stay.filled)) [[unlikely]] accuse(sized(b), site);
            if (!this->below.release_hit(t.below, b)) [[unlikely]] pass_by(t, b);
            continue;
          }
        if (block) freed += pass_on(t, batch, b, site);  // else claimed, and not written yet, by what we interrupted
      }
      batch.end();
      give_back(t.room, freed);
      if (t.oldest == t.newest && t.is_open) {  // what was lost to a handler costs no room from here on
        t.room = kBytes;
        show(t.unclassed, std::uint64_t{0});
      }
      t.is_draining = false;
    }
    /// On their way below: a few at a time where a heap takes several at once for less. Few, since others wait meanwhile.
    struct Batch {
      static constexpr unsigned kMax = ReleasesSome<Below> ? 8 : 1;
      Below& below;
      typename Below::Thread& thread;
      unsigned count = 0;
      std::byte* block[kMax] = {};

      void add(Block b) noexcept {
        if constexpr (ReleasesSome<Below>) {
          block[count++] = b.ptr;
          if (count == kMax) end();
        } else {
          below.release(thread, b);
        }
      }
      void end() noexcept {
        if constexpr (ReleasesSome<Below>) {
          if (count) below.release_some(thread, block, count);
          count = 0;
        }
      }
    };

    /// Returns what the block cost.
    std::int64_t pass_on(Thread& t, Batch& batch, Block b, const void* site) noexcept {
      if constexpr (Classed<Below>) b = sized(b);
      if (b.size_class == kNoClass) show(t.unclassed, t.unclassed - b.size);
      if constexpr (Fill::kFillBytes) check(b, site);
      batch.add(b);
      return static_cast<std::int64_t>(cost_of(b.size));
    }
    MORTISE_COLD void pass_by(Thread& t, Block b) noexcept { this->below.release(t.below, sized(b)); }

    /// Brings one of the waiting to where the oldest is. Neither may be one that is not written yet, by what we interrupted.
    static void draw(Thread& t) noexcept {
      t.random ^= t.random << 13;
      t.random ^= t.random >> 7;
      t.random ^= t.random << 17;
      const std::uint32_t waiting = t.newest - t.oldest;
      Entry& chosen = t.entry[(t.oldest + static_cast<std::uint32_t>((t.random >> 32) * waiting >> 32)) % kBlocks];
      Entry& oldest = t.entry[t.oldest % kBlocks];
      if (!chosen.block || !oldest.block) return;
      const Entry other = oldest;
      show(oldest.freed_at, chosen.freed_at);
      show(oldest.block, chosen.block);
      oldest.bytes = chosen.bytes;
      show(chosen.freed_at, other.freed_at);
      show(chosen.block, other.block);
      chosen.bytes = other.bytes;
    }

    /// A class tells the size; only blocks without one are measured.
    MORTISE_HOT Block sized(Block b) noexcept {
      if constexpr (Classed<Below>)
        if (b.size_class != kNoClass) [[likely]] return {b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      return this->below.measure(b);
    }
    static void check(Block b, const void* site) noexcept {
      if (!is_whole(b.ptr, filled(b.size))) [[unlikely]] accuse(b, site);
    }
    MORTISE_COLD static void accuse(Block b, const void* freed_at) noexcept {
      OnFault::answer({.fault = Fault::write_after_free, .block = b, .freed_at = freed_at});
    }

    ThreadList<Thread> threads_;
  };
};

}  // namespace mortise
