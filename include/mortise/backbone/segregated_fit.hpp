// Segregated fit: a bin of free blocks for each size class, whole runs of pages taken and given back.
//
//   malloc ─► bin of the class ─ pop ─► done            bin:  ▶ [ next │ key │ ... ] ▶ [ next │ key │ ... ] ▶ null
//                └ empty ─► refill ─ a few blocks of the class's current span, or of a new one
//   free   ─► bin of the class ─ push ─► done           key:  made of the address; found at a release, the block is free already
//   trim   ─► all of a bin is taken out and counted by span; spans that are free as a whole go below, the rest goes in again;
//             so does a release when there have been enough since the last time, and a request that finds no memory
//
// A free block carries its link, so a call touches the block and the bin's head, and nothing else. The Sync slot says what kind of
// bin: with LockFreeBin threads exclude each other by one compare-exchange of two words, with LockedBin<...> by a lock a class.
// A lock-free pop may read a block that somebody else already has, so its memory must stay mapped: it stands above StaysMapped only.
//
// Bound: pop and push O(1), refill O(blocks carved), trim O(free blocks), release O(1) amortised. Waste inside a block: see SizeClasses.
// Progress: as the bin while it holds blocks; blocking when it is refilled.
// Source: simple segregated storage [Wilson95]; lock-free lists [Treiber86]; keys as in glibc 2.29's thread caches.
// Placement: above a layer that finds and gives spans (SpanCache over PageIndex). Above it a cache, or nothing.
#pragma once

#include <cstring>

#include "mortise/backbone/slab_geometry.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/list.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/lock_free_bin.hpp"
#include "mortise/sync/locked_bin.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// `SizeClassesT`: which class serves a size.
/// `Sync`: the bin of a class.
template <PlainSizeMap SizeClassesT = classes::Geometric<8>, Bin Sync = LockFreeBin> struct SegregatedFit {
  static constexpr const char* kName = "SegregatedFit";
  static constexpr const char* kWhat = "a bin of free blocks a size class, filled from spans";
  static constexpr const char* kNeeds = "spans below (SpanCache over PageIndex); for LockFreeBin over StaysMapped as well, without walls";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("classes", SizeClassesT::kCount)
        .number("block_bytes_max", SizeClassesT::kMaxBytes).policy("Sync", Sync::kName);
  }

  template <GivesSpans Below>
      requires (facts_of<Below>().spans != Spans::slabs) &&
               (!Sync::kReadsTakenBlocks || (facts_of<Below>().spans == Spans::whole && !Moves<Below> && !ReleasesParts<Below>))
  class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Index = IndexOf<Below>;
    using Classes = SizeClassesT;
    static constexpr BlockFacts kFacts = facts_of<Below>().written();
    static constexpr Progress kProgress = {Sync::kGuarantee, Guarantee::blocking, Guarantee::blocking};

    /// Beyond the classes it is a span. An empty block also for alignments that the classes do not promise: Aligned stands above
    /// where they are wanted.
    Block allocate(Thread& t, Request r) noexcept {
      const Block b = try_allocate(t, r);
      if (b || r.align > kMinAlign) [[likely]] return b;
      return Index::reaches(r) && trim(t) ? try_allocate(t, r) : b;  // what lies in the bins may be what is missing
    }
    void release(Thread& t, Block b) noexcept {
      const unsigned c = b.class_index();
      if (c == kNoClass) return this->below.release(t, b);
      classes_[c].bin.push(checked(b.ptr, c));
      count_releases(t, c, 1);
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      unsigned got = 0;
      while (got < n && (out[got] = take(t, c))) ++got;
      return got;
    }
    /// One exchange for all of them.
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      if (n == 0) return;
      FreeLink* const last = checked(in[0], c);
      FreeLink* first = last;
      for (unsigned i = 1; i < n; ++i) {
        FreeLink* const link = checked(in[i], c);
        link->next.store(first, Order::relaxed);
        first = link;
      }
      classes_[c].bin.push_chain(first, last);
      count_releases(t, c, n);
    }

    Block measure(Block b) noexcept {
      if (b.size_class == kNoClass) b = this->block_of(b.ptr);
      if (b.size_class == kNoClass) return this->below.measure(b);
      return {b.ptr, Classes::size_of(b.class_index()), b.class_index()};
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept {
      if (b.size_class != kNoClass) return n <= Classes::size_of(b.class_index()) ? measure(b) : Block{};
      return n > Classes::kMaxBytes ? resize_below(this->below, t, b, n) : Block{};
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return b.size_class == kNoClass && n > Classes::kMaxBytes ? this->below.resize_by_moving(t, b, n) : Block{};
    }

    /// Gives spans below that are free as a whole, then trims below.
    std::size_t trim(Thread& t) noexcept {
      std::size_t given = 0;
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        given += sort_out(t, c);
      }
      return given + trim_below(this->below, t);
    }

    void lock_all() noexcept {
      for (auto& k : classes_) {
        hold(k.lock);
        if constexpr (kIsLocked) k.bin.close();
      }
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      for (unsigned c = Classes::kCount + 1; c-- > 0;) {
        if constexpr (kIsLocked) classes_[c].bin.open();
        let_go(classes_[c].lock);
      }
    }
    void reset_after_fork() noexcept {
      for (auto& k : classes_) {
        k.lock.reset();
        if constexpr (kIsLocked) k.bin.reset();
      }
      reset_below(this->below);
    }
    /// O(free blocks): they are counted.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        PerClass& k = classes_[c];
        Held held(k.lock);
        const std::size_t spans = k.spans * Geometry::span_bytes(c);
        u.in_slabs(c, Classes::size_of(c), k.carved - count_free(k, c), k.spans, spans);
        u.live -= spans;  // below counts a span as one large block
        u.large -= spans;
        u.large_count -= k.spans;
      }
    }
    /// Walks every bin and reports heap_inconsistent when a block in it is no free block of its class. O(free blocks).
    void audit() noexcept {
      if constexpr (Audits<Below>) this->below.audit();
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        MORTISE_AUDIT(count_free(classes_[c], c) <= classes_[c].carved);
      }
    }

   private:
    static constexpr bool kIsLocked = requires(Sync& bin) { bin.close(); };
    Index& index() noexcept { return this->below.page_index(); }
    using Geometry = SlabGeometry<Classes, Index::kGranule>;
    static constexpr std::size_t kSortBytes = 1_MiB;   ///< released in a class before its blocks are sorted out
    static constexpr std::size_t kCarveBytes = 4_KiB;  ///< carved at a time: pages are touched when they are needed

    struct alignas(64) PerClass {
      Sync bin;
      // Counted without exclusion, on a line that whoever counts has just written to: what is lost does not matter.
      Atomic<std::size_t> released_bytes{0}, kept_bytes{0};  ///< since the blocks were sorted out; what stayed in the bin then
      alignas(64) FutexLock lock;  ///< for all below: taken by refills and trims
      Span* current = nullptr;     ///< the span that is being carved
      bool is_paid = false;        ///< all of it counts towards the limit, and not only what was carved
      std::size_t carved = 0;      ///< blocks that were cut out of spans, in use or in the bin
      std::size_t spans = 0;
    };

    static std::uint64_t& key_at(FreeLink* link) noexcept { return reinterpret_cast<std::uint64_t*>(link)[1]; }
    static std::uint64_t key_of(const FreeLink* link) noexcept { return address_of(link) * 0x9E3779B97F4A7C15ull ^ 0x5a5a5a5a5a5a5a5aull; }
    static_assert(Classes::size_of(1) >= 16, "a free block holds its link and its key");

    Block try_allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes) [[unlikely]] return this->below.allocate(t, r);
      if (r.align > kMinAlign) return {};
      const unsigned c = Classes::class_of(r.size);
      std::byte* const p = take(t, c);
      if (!p) return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    void count_releases(Thread& t, unsigned c, unsigned n) noexcept {
      PerClass& k = classes_[c];
      const std::size_t now = k.released_bytes.load(Order::relaxed) + n * Classes::size_of(c);
      k.released_bytes.store(now, Order::relaxed);
      if (now < kSortBytes + 2 * k.kept_bytes.load(Order::relaxed) || !k.lock.try_lock()) [[likely]] return;  // does not wait
      sort_out(t, c);
      k.lock.unlock();
    }

    std::byte* take(Thread& t, unsigned c) noexcept {
      FreeLink* const link = classes_[c].bin.pop();
      return link ? opened(link) : refill(t, c);
    }
    static std::byte* opened(FreeLink* link) noexcept {
      key_at(link) = 0;
      return reinterpret_cast<std::byte*>(link);
    }
    /// The block at `p`, closed with its key. Reports double and invalid frees.
    FreeLink* checked(std::byte* p, unsigned c) noexcept {
      const Block b{p, Classes::size_of(c), c};
      const Span* const s = index().span_of(p);
      const auto offset = static_cast<std::size_t>(p - index().base_of(s));
      MORTISE_CHECK(s->state == SpanState::slab && Geometry::index_of(c, offset) * Classes::size_of(c) == offset, Fault::invalid_free, b);
      auto* const link = reinterpret_cast<FreeLink*>(p);
      MORTISE_CHECK(key_at(link) != key_of(link), Fault::double_free, b);
      key_at(link) = key_of(link);
      return link;
    }

    MORTISE_COLD std::byte* refill(Thread& t, unsigned c) noexcept {
      PerClass& k = classes_[c];
      Held held(k.lock);
      if (FreeLink* const link = k.bin.pop()) return opened(link);  // somebody was here before us
      if ((!k.current || k.current->bump == k.current->capacity) && !(k.current = add_span(t, c))) return nullptr;
      return carve(k, *k.current, c);
    }
    Span* add_span(Thread& t, unsigned c) noexcept {
      const Block b = this->below.allocate(t, {.size = Geometry::span_bytes(c)});
      if (!b) return nullptr;
      Span* s = index().span_of(b.ptr);
      s->state = SpanState::slab;
      s->size_class = static_cast<std::uint8_t>(c);
      s->capacity = Geometry::capacity(c);
      s->free = s->bump = 0;
      s->bin = kUnknown;
      index().set_class(s, c);
      ++classes_[c].spans;
      if constexpr (Charges<Below>) this->below.uncharge(Index::used_bytes_of(s));
      return s;
    }
    /// Of `n` fresh blocks those that a limit lets the program touch.
    unsigned charged(unsigned n, std::size_t block_bytes) noexcept {
      if constexpr (Charges<Below>)
        for (; n && !this->below.charge(n * block_bytes, false); n /= 2) {
        }
      return n;
    }
    /// A block for the caller, the rest of kCarveBytes into the bin. Null at the limit.
    std::byte* carve(PerClass& k, Span& s, unsigned c) noexcept {
      const std::size_t size = Classes::size_of(c);
      const unsigned left = s.capacity - s.bump;
      const auto wish = static_cast<unsigned>(size < kCarveBytes ? kCarveBytes / size : 1);
      const unsigned most = wish < left ? wish : left;
      const unsigned n = k.is_paid ? most : charged(most, size);
      if (n == 0) return pays(k, s) ? carve(k, s, c) : nullptr;
      std::byte* const first = index().base_of(&s) + s.bump * size;
      s.bump += n;
      k.carved += n;
      if (k.is_paid && n == left) settle(k, s, c);
      for (unsigned i = 1; i < n; ++i) {
        auto* const link = reinterpret_cast<FreeLink*>(first + i * size);
        key_at(link) = key_of(link);
        if (i + 1 < n) link->next.store(reinterpret_cast<FreeLink*>(first + (i + 1) * size), Order::relaxed);
      }
      if (n > 1) k.bin.push_chain(reinterpret_cast<FreeLink*>(first + size), reinterpret_cast<FreeLink*>(first + (n - 1) * size));
      return opened(reinterpret_cast<FreeLink*>(first));
    }

    /// Free memory counts towards a limit, and may be beyond it where it cannot be given back. A fresh span of it that counts as it did,
    /// as a whole, is no more than there was: it may be touched as long as less than the limit is in memory.
    bool pays(PerClass& k, Span& s) noexcept {
      if constexpr (Charges<Below> && Limits<Below> && SeesResidency<Below>) {
        const std::size_t bytes = Index::used_bytes_of(&s);
        std::size_t resident;
        if (s.bump || !this->below.see_resident_bytes(resident) || resident + bytes > this->below.limit_bytes()) return false;
        return k.is_paid = this->below.charge(bytes, true);
      }
      return false;
    }
    /// From here on it counts as others do, whose blocks were paid for one by one.
    void settle(PerClass& k, Span& s, unsigned c) noexcept {
      if constexpr (Charges<Below>) this->below.uncharge(Index::used_bytes_of(&s) - s.bump * Classes::size_of(c));
      k.is_paid = false;
    }

    // -- under the class's lock; who finds the bin empty meanwhile waits for it in refill()

    /// How many blocks are in the bin; each is checked.
    std::size_t count_free(PerClass& k, unsigned c) noexcept {
      FreeLink* const all = k.bin.steal_all();
      FreeLink* last = nullptr;
      std::size_t n = 0;
      for (FreeLink* link = all; link; last = link, link = link->next.load(Order::relaxed), ++n) {
        const Span* const s = index().span_of(reinterpret_cast<std::byte*>(link));
        MORTISE_AUDIT(s->state == SpanState::slab && s->size_class == c && key_at(link) == key_of(link));
      }
      if (last) k.bin.push_chain(all, last);
      return n;
    }

    enum : std::uint8_t { kUnknown, kInUse, kWhole };  // what Span::bin says while blocks are sorted out
    /// Returns the bytes of spans that were free as a whole.
    std::size_t sort_out(Thread& t, unsigned c) noexcept {
      PerClass& k = classes_[c];
      FreeLink* const all = k.bin.steal_all();
      for (FreeLink* link = all; link; link = link->next.load(Order::relaxed)) ++span_of(link)->free;
      FreeLink *first = nullptr, *last = nullptr;
      std::size_t given = 0, kept = 0;
      for (FreeLink *link = all, *next; link; link = next) {
        next = link->next.load(Order::relaxed);
        Span* const s = span_of(link);
        if (s->bin == kUnknown) s->bin = s->free == s->bump ? kWhole : kInUse;
        const bool is_whole = s->bin == kWhole;
        if (!is_whole) {
          if (last) last->next.store(link, Order::relaxed);
          else first = link;
          last = link;
          ++kept;
        }
        if (--s->free != 0) continue;
        s->bin = kUnknown;
        if (is_whole) given += retire(t, k, s);
      }
      if (last) k.bin.push_chain(first, last);
      if (k.current && !k.current->bump) given += retire(t, k, k.current);  // a limit let none of its blocks be touched
      k.released_bytes.store(0, Order::relaxed);
      k.kept_bytes.store(kept * Classes::size_of(c), Order::relaxed);
      return given;
    }
    Span* span_of(FreeLink* link) noexcept { return index().span_of(reinterpret_cast<std::byte*>(link)); }

    std::size_t retire(Thread& t, PerClass& k, Span* s) noexcept {
      if (k.current == s && k.is_paid) settle(k, *s, s->size_class);
      if (k.current == s) k.current = nullptr;
      k.carved -= s->bump;
      --k.spans;
      const std::size_t bytes = Index::bytes_of(s);
      if constexpr (Charges<Below>) this->below.charge(Index::used_bytes_of(s) - s->bump * Classes::size_of(s->size_class), true);
      index().set_class(s, kNoClass);
      index().set_span(s->head, s->granules, SpanState::large);
      this->below.release(t, {index().base_of(s), bytes, kNoClass});
      return bytes;
    }

    PerClass classes_[Classes::kCount + 1];
  };
};

}  // namespace mortise
