// A free needs no answer, so it need not wait: the block stays with its thread until a malloc of its size takes it back, or until
// enough of them go below at once. A malloc and a free that meet here cancel each other, and neither enters the backbone's lock.
//
//   free(p) ──▶ slots of its size [ p | p |   |   ] ── room: p stays ── done            lie in the thread's record
//                  │ full
//                  └──▶ waiting [ p | p | p |   |   ] ── room: p waits ── done
//                          └── full: all that wait go below, in one critical section
//   malloc(n) ─▶ slots of its size ── the youngest is taken back ── done
//                  │ empty
//                  └──▶ below ── no memory: everything that any thread keeps goes below, and once more
//
// A slot is filled by its thread alone, which knows that it is empty, so a store does. It is emptied by an exchange, its thread's own or
// that of somebody who found no memory: whoever gets the pointer has the block, and nobody gets it twice. So everything can be emptied
// from anywhere, and a request is refused only where it would be with nothing kept here: what is kept is late, never lost.
// A thread's count of a class may be too high when others have emptied it: then an exchange gives null, which is a miss.
//
// What is kept is bounded: kDepth blocks and kBytesPerClass bytes a class (never less than one block), and kWaiting more, a thread. For
// the backbone they are in use: neighbours merge when they reach it. A second free of the block that was freed last of its size is
// reported at once, others when they go below.
//
// Bound: a hit is constant; a miss is one request, or kWaiting releases, below; without memory, as many releases as blocks are kept.
// Progress: hit wait-free; misses as below; one lock for threads that begin or end, and where memory ran out.
// Source: elimination of two operations that cancel each other [HendlerEtAl04], here of one thread; kept by size as in [BonwickAdams01].
// Placement: directly above a backbone without size classes that takes back many blocks at once (BoundaryTag, Tlsf).
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

/// `SizeClassesT`: which sizes cancel each other, tags included. Requests up to 4 KiB are rounded up to them; larger ones go below.
/// `kDepth` (1..64): the most blocks that a thread keeps of one class.
/// `kBytesPerClass` (0..64 KiB): the most bytes that a thread keeps of one class; never fewer than one block.
/// `kWaiting` (2..64): how many other blocks go below together.
template <PlainSizeMap SizeClassesT = classes::Geometric<16, 4_KiB>, unsigned kDepth = 4, std::size_t kBytesPerClass = 4_KiB,
          unsigned kWaiting = 4>
struct EliminationArray {
  static_assert(kDepth >= 1 && kDepth <= 64 && kWaiting >= 2 && kWaiting <= 64, "EliminationArray: depth 1 to 64, waiting 2 to 64");
  static constexpr const char* kName = "EliminationArray";
  static constexpr const char* kWhat = "a malloc takes back what its thread has freed; other frees go below together";
  static constexpr const char* kNeeds = "a backbone directly below that takes back many blocks at once (BoundaryTag, Tlsf)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("depth", kDepth).number("bytes_per_class", kBytesPerClass)
        .number("waiting", kWaiting);
  }

  template <Locates Below> requires Tagged<Below> class Over : public Locked<Below, FutexLock> {
    using Map = SizeClassesT;
    static constexpr std::size_t kTag = Below::kTag;
    static constexpr std::size_t kChunkMax = Map::kMaxBytes < 4_KiB ? Map::kMaxBytes : 4_KiB;  // a size has room beside a pointer
    static constexpr std::size_t kRequestMax = kChunkMax - kTag;
    static constexpr unsigned kClasses = Map::class_of(kChunkMax);
    static constexpr unsigned kUnitLog2 = log2_floor(kMinAlign), kPointerBits = 56;

   public:
    static constexpr Progress kProgress = {Guarantee::wait_free, Below::kProgress.refill, Below::kProgress.grow};
    static constexpr bool kTakesUnsized = true;

    /// All zero: a thread that has not attached, which keeps nothing. Counts are the thread's own; slots are emptied by anybody.
    struct Thread {
      Shared<Thread*> next;  ///< in the list of attached threads; under the lock
      Shared<Thread*> prev;
      bool is_attached = false;
      Shared<std::uint8_t> waiting_count;
      Shared<std::uint8_t> count[kClasses + 1];
      Atomic<std::byte*> slot[kClasses + 1][kDepth];
      Atomic<std::uint64_t> waiting[kWaiting];  ///< pointer, and in the upper 8 bits its chunk's size in units, less one
      [[no_unique_address]] typename Below::Thread below{};
    };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.size > kRequestMax || r.align > kMinAlign) [[unlikely]] return {};
      const unsigned c = class_for(r.size);
      const unsigned n = t.count[c];
      if (n == 0) [[unlikely]] return {};
      t.count[c] = static_cast<std::uint8_t>(n - 1);
      std::byte* const p = t.slot[c][n - 1].exchange(nullptr, Order::relaxed);  // this thread has filled it: its own stores are in order
      if (r.zeroed && p) std::memset(p, 0, r.size);
      return {p, Map::size_of(c) - kTag};  // null: somebody else has it
    }
    /// Only chunks of a class's exact size have slots, so that a block is as large as its class says.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      const std::size_t bytes = this->below.chunk_bytes_of(b.ptr);
      if (bytes > kChunkMax || !t.is_attached) [[unlikely]] return false;
      const std::size_t units = bytes >> kUnitLog2;
      const Home home = kHomeOf[units];
      const unsigned c = home.size_class;
      const unsigned n = t.count[c];
      if (n && t.slot[c][n - 1].load(Order::relaxed) == b.ptr) [[unlikely]] return false;
      if (n < home.room) [[likely]] {
        t.count[c] = static_cast<std::uint8_t>(n + 1);
        t.slot[c][n].store(b.ptr, Order::release);  // pairs with the acquire in empty_slots()
        return true;
      }
      const unsigned w = t.waiting_count;
      if (w == kWaiting - 1) [[unlikely]] return false;
      t.waiting[w].store(address_of(b.ptr) | std::uint64_t{units - 1} << kPointerBits, Order::release);  // as above
      t.waiting_count = static_cast<std::uint8_t>(w + 1);
      return true;
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      if (const Block hit = allocate_hit(t, r)) return hit;
      return allocate_below(t, r);
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      if (!release_hit(t, b)) release_below(t, b);
    }

    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }
    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      Held held(this->lock_);
      threads_.push(&t);
      t.is_attached = true;
    }
    /// What the thread keeps goes below; its record may be used for another thread.
    void detach(Thread& t) noexcept {
      if (t.is_attached) {
        t.is_attached = false;
        empty_waiting(t, t, nullptr);
        empty_slots(t, t);
        Held held(this->lock_);
        threads_.remove(&t);
      }
      detach_below(this->below, t.below);
    }
    /// What any thread keeps goes below, then trims below.
    std::size_t trim(Thread& t) noexcept {
      empty_all(t);
      return trim_below(this->below, t.below);
    }
    /// Counts what is seen in the slots, never a block, which may be somebody's again: exact when threads rest.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (const Thread* t = threads_.first(); t; t = t->next) {
        for (unsigned c = 1; c <= kClasses; ++c)
          for (const auto& slot : t->slot[c])
            if (slot.load(Order::relaxed)) u.move_to_cache(Map::size_of(c));
        for (const auto& w : t->waiting)
          if (const std::uint64_t kept = w.load(Order::relaxed)) u.move_to_cache(((kept >> kPointerBits) + 1) << kUnitLog2);
      }
    }

   private:
    // Misses are functions of their own: what a hit does depends on no lock below.
    [[gnu::noinline]] Block allocate_below(Thread& t, Request r) noexcept {
      if (r.size <= kRequestMax) r.size = Map::size_of(class_for(r.size)) - kTag;
      if (const Block b = this->below.allocate(t.below, r)) [[likely]] return b;
      return empty_all(t) ? this->below.allocate(t.below, r) : Block{};
    }
    [[gnu::noinline]] void release_below(Thread& t, Block b) noexcept {
      const std::size_t bytes = this->below.chunk_bytes_of(b.ptr);
      if (bytes > kChunkMax || !t.is_attached) return this->below.release(t.below, b);
      const unsigned c = Map::class_of(bytes), n = t.count[c];
      MORTISE_CHECK(n == 0 || t.slot[c][n - 1].load(Order::relaxed) != b.ptr, Fault::double_free, b);
      empty_waiting(t, t, b.ptr);
    }

    /// The class of the chunk that a request makes.
    MORTISE_HOT static unsigned class_for(std::size_t size) noexcept {
      return Map::class_of((size < Below::kChunkMin - kTag ? Below::kChunkMin - kTag : size) + kTag);
    }

    /// Of a chunk of so many units.
    struct Home {
      std::uint8_t size_class;
      std::uint8_t room;  ///< slots of the class; none where no class has just this size
    };
    static constexpr auto make_homes() noexcept {
      std::array<Home, (kChunkMax >> kUnitLog2) + 1> homes{};
      for (unsigned units = 1; units < homes.size(); ++units) {
        const std::size_t bytes = std::size_t{units} << kUnitLog2, fit = kBytesPerClass / bytes;
        const unsigned c = Map::class_of(bytes);
        const bool is_exact = Map::size_of(c) == bytes;
        homes[units] = {static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(!is_exact ? 0 : fit < 1 ? 1 : fit > kDepth ? kDepth : fit)};
      }
      return homes;
    }
    static constexpr auto kHomeOf = make_homes();

    /// On behalf of `t`: what waits in the record `of`, and one block more, goes below. Returns how many they were.
    MORTISE_COLD unsigned empty_waiting(Thread& t, Thread& of, std::byte* one_more) noexcept {
      std::byte* batch[kWaiting];
      unsigned n = 0;
      for (unsigned w = 0; w + 1 < kWaiting; ++w) {
        if (!of.waiting[w].load(Order::relaxed)) continue;
        const std::uint64_t kept = of.waiting[w].exchange(0, Order::acquire);  // pairs with the release in release_hit()
        if (kept) batch[n++] = reinterpret_cast<std::byte*>(kept & ((std::uint64_t{1} << kPointerBits) - 1));
      }
      if (&t == &of) t.waiting_count = 0;
      if (one_more) batch[n++] = one_more;
      if (n) this->below.release_some(t.below, batch, n);
      return n;
    }
    MORTISE_COLD unsigned empty_slots(Thread& t, Thread& of) noexcept {
      std::byte* batch[kWaiting];
      unsigned n = 0, total = 0;
      for (unsigned c = 1; c <= kClasses; ++c) {
        for (auto& slot : of.slot[c]) {
          std::byte* const p = slot.load(Order::relaxed) ? slot.exchange(nullptr, Order::acquire) : nullptr;  // as above
          if (p) batch[n++] = p, ++total;
          if (n == kWaiting) this->below.release_some(t.below, batch, n), n = 0;
        }
        if (&t == &of) t.count[c] = 0;
      }
      if (n) this->below.release_some(t.below, batch, n);
      return total;
    }
    MORTISE_COLD unsigned empty_all(Thread& t) noexcept {
      Held held(this->lock_);
      unsigned total = 0;
      for (Thread* of = threads_.first(); of; of = of->next) total += empty_waiting(t, *of, nullptr) + empty_slots(t, *of);
      return total;
    }

    ThreadList<Thread> threads_;
  };
};

}  // namespace mortise
