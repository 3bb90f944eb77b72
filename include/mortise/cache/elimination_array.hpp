// A free needs no answer, so it need not wait: the block stays with its thread until a malloc of its size takes it back, or until
// its place is wanted. A malloc and a free that meet here cancel each other, and neither enters the backbone's lock.
//
//   places   [ p | p |   | p | ... ]      of all sizes, filled in turn; lie in the thread's record
//   by class [ 1 . . 1 ], [ . 1 . . ] ... a word each: which places hold a block of the class
//
//   free(p) ──▶ the next empty place ── done
//                  │ none: the kTogether oldest go below, in one critical section
//   malloc(n) ─▶ the place of its class that was filled last ── its block is taken back ── done
//                  │ none
//                  └──▶ below ── no memory: everything that any thread keeps goes below, and once more
//
// A place is filled by its thread alone, which knows that it is empty, so a store does. It is emptied by an exchange, its thread's own or
// that of somebody who found no memory: whoever gets the pointer has the block, and nobody gets it twice. So everything can be emptied
// from anywhere, and a request is refused only where it would be with nothing kept here: what is kept is late, never lost.
// A thread's words may name places that others have emptied: then an exchange gives null, which is a miss.
//
// What is kept is bounded: kPlaces blocks of at most 4 KiB a thread. For the backbone they are in use: neighbours merge when they reach
// it. A second free of the block that was freed last of its size is reported at once, others when they go below.
//
// Bound: a hit is constant; a miss is one request, or kTogether releases, below; without memory, as many releases as blocks are kept.
// Progress: hit wait-free; misses as below; one lock for threads that begin or end, and where memory ran out.
// Source: elimination of two operations that cancel each other [HendlerEtAl04], here of one thread; kept by size as in [BonwickAdams01].
// Placement: directly above a backbone without size classes that takes back many blocks at once (BoundaryTag, Tlsf).
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `SizeClassesT`: which sizes cancel each other, tags included. Requests up to 4 KiB are rounded up to them; larger ones go below.
/// `kPlaces` (1..64): the most blocks that a thread keeps.
/// `kTogether` (1..16): how many of them go below in one critical section when all places are taken.
template <SizeMap SizeClassesT = classes::Geometric<16, 4_KiB>, unsigned kPlaces = 64, unsigned kTogether = 4> struct EliminationArray {
  static_assert(kPlaces >= 1 && kPlaces <= 64 && kTogether >= 1 && kTogether <= 16 && kTogether <= kPlaces,
                "EliminationArray: 1 to 64 places, 1 to 16 together and no more than there are places");
  static constexpr const char* kName = "EliminationArray";
  static constexpr const char* kWhat = "a malloc takes back what its thread has freed; other frees go below together";
  static constexpr const char* kNeeds = "a backbone directly below that takes back many blocks at once (BoundaryTag, Tlsf)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("places", kPlaces).number("together", kTogether);
  }

  template <Locates Below> requires Tagged<Below> class Over : public Locked<Below, FutexLock> {
    using Map = SizeClassesT;
    using Places = std::uint64_t;  ///< a bit each
    static constexpr std::size_t kTag = Below::kTag;
    static constexpr std::size_t kChunkMax = Map::kMaxBytes < 4_KiB ? Map::kMaxBytes : 4_KiB;  // a unit's number fits a byte
    static constexpr std::size_t kRequestMax = kChunkMax - kTag;
    static constexpr unsigned kClasses = Map::class_of(kChunkMax);
    static constexpr unsigned kUnitLog2 = log2_floor(kMinAlign);
    static constexpr Places kAll = kPlaces == 64 ? ~Places{0} : (Places{1} << kPlaces) - 1;

   public:
    static constexpr Progress kProgress = {Guarantee::wait_free, Below::kProgress.refill, Below::kProgress.grow};
    static constexpr bool kTakesUnsized = true;

    /// All zero: a thread that has not attached, which keeps nothing. Words are the thread's own; places are emptied by anybody.
    struct Thread {
      Shared<Thread*> next;  ///< in the list of attached threads; under the lock
      Shared<Thread*> prev;
      bool is_attached = false;
      Shared<unsigned> turn;                 ///< behind the place that was filled last
      Shared<Places> taken;                  ///< as far as the thread knows
      Shared<Places> of_class[kClasses + 1]; ///< the first: of no class, blocks whose size is none's
      Atomic<std::byte*> place[kPlaces];
      Atomic<std::uint8_t> last_unit[kPlaces];  ///< of what lies or lay there: its chunk's units, less one
      [[no_unique_address]] typename Below::Thread below{};
    };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.size > kRequestMax || r.align > kMinAlign) [[unlikely]] return {};
      const unsigned c = class_for(r.size);
      const Places mine = t.of_class[c];
      if (!mine) [[unlikely]] return {};
      const unsigned i = newest(t, mine);
      t.of_class[c] = mine & ~bit(i);
      t.taken = t.taken & ~bit(i);
      std::byte* const p = t.place[i].exchange(nullptr, Order::relaxed);  // this thread has filled it: its own stores are in order
      if (r.zeroed && p) std::memset(p, 0, r.size);
      return {p, Map::size_of(c) - kTag};  // null: somebody else has it
    }
    /// Only chunks of a class's exact size are found again, so that a block is as large as its class says.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      const std::size_t bytes = this->below.chunk_bytes_of(b.ptr);
      if (bytes > kChunkMax || !t.is_attached) [[unlikely]] return false;
      const std::size_t units = bytes >> kUnitLog2;
      const unsigned c = kClassOf[units];
      const Places mine = t.of_class[c];
      if (mine && t.place[newest(t, mine)].load(Order::relaxed) == b.ptr) [[unlikely]] return false;
      if (t.taken == kAll) [[unlikely]] return false;
      const unsigned i = next_of(t, ~t.taken & kAll);
      t.of_class[c] = mine | bit(i);
      t.taken = t.taken | bit(i);
      t.turn = i + 1;
      t.last_unit[i].store(static_cast<std::uint8_t>(units - 1), Order::relaxed);
      t.place[i].store(b.ptr, Order::release);  // pairs with the acquire in empty()
      return true;
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (const Block hit = allocate_hit(t, r)) return hit;
      if (r.size <= kRequestMax) r.size = Map::size_of(class_for(r.size)) - kTag;
      if (const Block b = this->below.allocate(t.below, r)) [[likely]] return b;
      return empty_all(t) ? this->below.allocate(t.below, r) : Block{};
    }
    void release(Thread& t, Block b) noexcept {
      if (release_hit(t, b)) return;
      const std::size_t bytes = this->below.chunk_bytes_of(b.ptr);
      if (bytes > kChunkMax || !t.is_attached) return this->below.release(t.below, b);
      const Places mine = t.of_class[kClassOf[bytes >> kUnitLog2]];
      MORTISE_CHECK(!mine || t.place[newest(t, mine)].load(Order::relaxed) != b.ptr, Fault::double_free, b);
      make_room(t);
      release_hit(t, b);
    }

    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }
    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      Held held(this->lock_);
      t.next = first_.get();
      if (first_) first_->prev = &t;
      first_ = &t;
      t.is_attached = true;
    }
    /// What the thread keeps goes below; its record may be used for another thread.
    void detach(Thread& t) noexcept {
      if (t.is_attached) {
        t.is_attached = false;
        empty(t, t);
        Held held(this->lock_);
        (t.prev ? t.prev->next : first_) = t.next.get();
        if (t.next) t.next->prev = t.prev.get();
        t.next = nullptr;
        t.prev = nullptr;
      }
      detach_below(this->below, t.below);
    }
    /// What any thread keeps goes below, then trims below.
    std::size_t trim(Thread& t) noexcept {
      empty_all(t);
      return trim_below(this->below, t.below);
    }
    /// Counts what is seen in the places, never a block, which may be somebody's again: exact when threads rest.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (const Thread* t = first_; t; t = t->next) {
        for (unsigned i = 0; i < kPlaces; ++i)
          if (t->place[i].load(Order::relaxed)) u.move_to_cache((std::size_t{t->last_unit[i].load(Order::relaxed)} + 1) << kUnitLog2);
      }
    }

   private:
    /// The class of the chunk that a request makes.
    MORTISE_HOT static unsigned class_for(std::size_t size) noexcept {
      return Map::class_of((size < Below::kChunkMin - kTag ? Below::kChunkMin - kTag : size) + kTag);
    }
    /// Of a chunk of so many units; none where no class has just this size.
    static constexpr auto kClassOf = [] {
      std::array<std::uint8_t, (kChunkMax >> kUnitLog2) + 1> classes{};
      for (unsigned units = 1; units < classes.size(); ++units) {
        const unsigned c = Map::class_of(std::size_t{units} << kUnitLog2);
        if (Map::size_of(c) == std::size_t{units} << kUnitLog2) classes[units] = static_cast<std::uint8_t>(c);
      }
      return classes;
    }();

    MORTISE_HOT static constexpr Places bit(unsigned i) noexcept { return Places{1} << i; }
    /// Of some places, not none, the one that was filled last.
    MORTISE_HOT static unsigned newest(const Thread& t, Places of) noexcept {
      return (log2_floor(std::rotr(of, static_cast<int>(t.turn))) + t.turn) % 64;
    }
    /// Of some places, not none, the one whose turn it is; where all are taken, the one that was filled first.
    MORTISE_HOT static unsigned next_of(const Thread& t, Places of) noexcept {
      return (static_cast<unsigned>(std::countr_zero(std::rotr(of, static_cast<int>(t.turn)))) + t.turn) % 64;
    }

    /// All places are taken: the oldest blocks go below.
    MORTISE_COLD void make_room(Thread& t) noexcept {
      std::byte* batch[kTogether];
      unsigned n = 0;
      for (unsigned k = 0; k < kTogether; ++k) {
        const unsigned i = next_of(t, t.taken);
        t.taken = t.taken & ~bit(i);
        auto& mine = t.of_class[kClassOf[t.last_unit[i].load(Order::relaxed) + 1u]];
        mine = mine & ~bit(i);
        if (std::byte* const p = t.place[i].exchange(nullptr, Order::relaxed)) batch[n++] = p;
      }
      if (n) this->below.release_some(t.below, batch, n);
    }
    /// On behalf of `t`: what the record `of` keeps goes below. Returns how many blocks they were.
    MORTISE_COLD unsigned empty(Thread& t, Thread& of) noexcept {
      std::byte* batch[kTogether];
      unsigned n = 0, total = 0;
      for (auto& place : of.place) {
        if (!place.load(Order::relaxed)) continue;
        std::byte* const p = place.exchange(nullptr, Order::acquire);  // pairs with the release in release_hit()
        if (!p) continue;
        batch[n++] = p;
        ++total;
        if (n == kTogether) this->below.release_some(t.below, batch, n), n = 0;
      }
      if (n) this->below.release_some(t.below, batch, n);
      if (&t == &of) {
        t.turn = 0;
        t.taken = 0;
        for (auto& places : t.of_class) places = 0;
      }
      return total;
    }
    MORTISE_COLD unsigned empty_all(Thread& t) noexcept {
      Held held(this->lock_);
      unsigned total = 0;
      for (Thread* of = first_; of; of = of->next) total += empty(t, *of);
      return total;
    }

    Shared<Thread*> first_;
  };
};

}  // namespace mortise
