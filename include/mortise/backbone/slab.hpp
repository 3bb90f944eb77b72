// Slabs: spans carved into equal blocks, a bitmap out of line saying which are free.
//
//   span of class c        ┌────┬────┬────┬────┬─────────────────┐
//   low address            │ 0  │ 1  │ 2  │ 3  │ never handed out│  high address
//                          └────┴────┴────┴────┴─────────────────┘
//   bits_of(span)            0    1    0    1    (1 = released)   ▲ bump
//
// Allocation, a batch at a time: 1. take the fullest span that has room; 2. its lowest released blocks first, then fresh ones from `bump`;
// 3. no span has room: ask below for one. The first block of a span lies some lines in (SlabGeometry::first_of): those before count as
// released, and wait. Release: set the block's bit; a span that becomes empty goes back below unless it is the last of its class. A free
// block's memory is never written or read, so its pages can be purged.
//
// Bound: a batch of n blocks costs O(n + words of one bitmap). Waste inside a block: see SizeClasses; at a span's end: untouched. Progress:
// blocking, one lock a class. Source: [Bonwick94] slabs; bitmaps and address order as in [Evans06].
// Placement: above a layer that finds and gives spans (SpanCache over PageIndex). Above it a cache, or nothing.
#pragma once

#include "mortise/backbone/slab_bits.hpp"
#include "mortise/backbone/slab_geometry.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/bitmap.hpp"
#include "mortise/data/list.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/data/strided.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/fit.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// `SizeClassesT`: which class serves a size.
/// `Sync`: the lock of a class.
/// `Fit`: which of the spans with room is taken.
template <SizeMap SizeClassesT = classes::Geometric<8>, Lock Sync = FutexLock, fit::SpanFit Fit = fit::FullestFirst> struct Slab {
  static constexpr const char* kName = "Slab";
  static constexpr const char* kWhat = "spans carved into equal blocks, bitmaps out of line, one lock a size class";
  static constexpr const char* kNeeds = "a layer below that gives spans and finds them (SpanCache over PageIndex)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("classes", SizeClassesT::kCount)
        .number("block_bytes_max", SizeClassesT::kMaxBytes).policy("Sync", Sync::kName).policy("Fit", Fit::kName);
  }

  template <GivesSpans Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Index = IndexOf<Below>;
    using Classes = SizeClassesT;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));
    using Geometry = SlabGeometry<Classes, Index::kGranule>;
    static_assert(sizeof(Geometry) > 0, "its own assertions hold");
    static_assert(!ColouredMap<Classes> || requires(Sync& lock) { lock.try_lock(); }, "Slab with colours: its lock needs try_lock");

    /// An empty block also for alignments that its classes do not promise: Aligned stands above where they are wanted.
    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes || r.align > kMinAlign) return {};
      const unsigned c = Classes::class_of(r.size);
      std::byte* p;
      if (!allocate_batch(t, c, &p, 1)) return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    void release(Thread& t, Block b) noexcept { release_batch(t, b.size_class, &b.ptr, 1); }

    /// Up to `n` blocks of class `c`, lowest addresses of one or more spans; fewer only when memory runs out.
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      PerClass& k = classes_[c];
      Held held(k.lock);
      unsigned got = 0;
      while (got < n) {
        Span* s = fullest(k);
        if (!s && !(s = adopt(k, c)) && !(s = add_span(t, k, c))) break;
        const unsigned more = carve(s, c, out + got, n - got);
        refile(k, s);
        if (!more && !(s = with_released(k))) break;  // a limit lets no fresh block be touched; released ones are there already
        got += more ? more : carve(s, c, out + got, n - got);
        if (!more) refile(k, s);
      }
      k.live += got;
      ++k.served;
      return got;
    }

    /// Takes back `n` blocks of class `c`, from any spans, in any order. Reports double and invalid frees.
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      while ((n = release_own(t, c, in, n))) c = index().class_at(in[0]);  // spans that another colour took over
    }

    MORTISE_HOT Block measure(Block b) noexcept {
      if (b.size_class == kNoClass) b = this->block_of(b.ptr);  // unsized blocks may not know their class
      if (b.size_class == kNoClass) return this->below.measure(b);
      return {b.ptr, Classes::size_of(b.class_index()), b.class_index()};
    }
    Block resize_in_place(Thread&, Block b, std::size_t n) noexcept {
      return n <= Classes::size_of(b.size_class) ? measure(b) : Block{};
    }

    /// Gives empty spans below, trims below, and gives the pages that lie in free blocks of other spans to the system. O(free blocks).
    std::size_t trim(Thread& t) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        for (auto& list : classes_[c].partial)
          for (Span *s = list.first(), *next; s; s = next) {
            next = s->next;
            if (s->free == s->capacity) delist(classes_[c], s), give_back(t, classes_[c], s);
          }
      }
      std::size_t given = trim_below(this->below, t);  // first: a heap at rest asks for no huge pages, which would bring pages back
      for (unsigned c = 1; c <= Classes::kCount; ++c)
        while (const std::size_t some = purge_some(c)) given += some - 1;
      return given;
    }

    void lock_all() noexcept {
      for (auto& k : classes_) hold(k.lock);
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      for (unsigned c = Classes::kCount + 1; c-- > 0;) let_go(classes_[c].lock);
    }
    void reset_after_fork() noexcept {
      for (auto& k : classes_) k.lock.reset();
      reset_below(this->below);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        u.in_slabs(plain_class<Classes>(c), Classes::size_of(c), classes_[c].live, classes_[c].spans, classes_[c].span_bytes);
        u.live -= classes_[c].span_bytes;  // below counts a slab as one large block
        u.large -= classes_[c].span_bytes;
        u.large_count -= classes_[c].spans;
      }
    }

    /// Walks every span that has room and reports heap_inconsistent when a count and a bitmap disagree. O(spans).
    void audit() noexcept {
      if constexpr (Audits<Below>) this->below.audit();
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        for (unsigned bin = 0; bin < Fit::kBins; ++bin) {
          for (Span* s = classes_[c].partial[bin].first(); s; s = s->next) {
            MORTISE_AUDIT(s->state == SpanState::slab && s->size_class == c);
            MORTISE_AUDIT(s->free > 0 && s->free <= s->capacity && s->bump <= s->capacity);
            MORTISE_AUDIT(s->bin == bin && Fit::bin_of(s->free, s->per_capacity) == bin);
            MORTISE_AUDIT(Bitmap(index().bits_of(s)).count(s->capacity) + (s->capacity - s->bump) == s->free);
          }
        }
      }
    }

    /// Every block handed out, large ones from below included. O(blocks). The heap must be at rest.
    template <class Each> void each_live(Each&& each) noexcept {
      for (std::uint32_t g = 0; g < index().covered();) {
        Span* s = &index().spans()[g];
        g += s->state == SpanState::none ? 1 : s->granules;
        if (s->state == SpanState::large) each(this->below.measure({index().base_of(s), 0}));
        if (s->state != SpanState::slab) continue;
        const Bitmap released(index().bits_of(s));
        const std::size_t size = Classes::size_of(s->size_class);
        for (unsigned i = 0; i < s->bump; ++i)
          if (!released.test(i)) each(Block{index().base_of(s) + i * size, size, s->size_class});
      }
    }

    bool start(const os::Facts& facts) noexcept {
      page_bytes_ = facts.page_bytes;
      return start_below(this->below, facts);
    }

   private:
    Index& index() noexcept { return this->below.page_index(); }
    using Bits = SlabBits<Classes, Index>;
    struct alignas(64) PerClass {
      Sync lock;
      List<Span> partial[Fit::kBins];  ///< spans with free blocks, by how many
      std::size_t live = 0;            ///< blocks handed out
      std::size_t spans = 0;
      Glanced<std::size_t> span_bytes = {};              ///< of all of them
      std::uint32_t served = 0;                          ///< batches
      std::uint32_t seen[colours_of<Classes>()] = {};    ///< what the other colours had served when this one last asked
    };

    static Span* fullest(PerClass& k) noexcept {
      for (auto& list : k.partial)
        if (Span* s = list.first()) return s;
      return nullptr;
    }
    static Span* with_released(PerClass& k) noexcept {
      for (auto& list : k.partial)
        for (Span* s = list.first(); s; s = s->next)
          if (s->free > s->capacity - s->bump) return s;
      return nullptr;
    }
    /// Of `n` fresh blocks those that a limit lets the program touch.
    unsigned charged(unsigned n, std::size_t block_bytes) noexcept {
      if constexpr (Charges<Below>)
        while (n && !this->below.charge(n * block_bytes, false)) n /= 2;
      return n;
    }

    [[gnu::noinline]] Span* add_span(Thread& t, PerClass& k, unsigned c) noexcept {
      const std::size_t full = Geometry::span_bytes(c);
      std::size_t bytes = Geometry::span_bytes(c, k.spans);
      Block b = this->below.allocate(t, {.size = bytes});
      if (!b && bytes > full) b = this->below.allocate(t, {.size = bytes = full});
      if (!b) return nullptr;
      Span* s = index().span_of(b.ptr);
      s->state = SpanState::slab;
      s->size_class = static_cast<std::uint8_t>(c);
      s->capacity = s->free = static_cast<std::uint32_t>(bytes / Classes::size_of(c));
      s->per_capacity = static_cast<std::uint32_t>((std::uint64_t{1} << 32) / s->capacity);
      s->bump = Geometry::first_of(c, s->head);
      s->hint = s->purged_in = 0;
      *index().bits_of(s) = (std::uint64_t{1} << s->bump) - 1;
      set_class(s, c);
      enlist(k, s);
      count_span(k, s, 1);
      if constexpr (Charges<Below>) this->below.uncharge(Index::used_bytes_of(s) - s->bump * Classes::size_of(c));
      return s;
    }

    /// Takes up to `n` blocks out of `s`; its free count is updated, its list is not.
    unsigned carve(Span* s, unsigned c, std::byte** out, unsigned n) noexcept {
      std::byte* const base = index().base_of(s);
      const std::size_t size = Classes::size_of(c);
      const unsigned room = s->capacity - s->bump, released = s->free - room;
      const bool they_wait = released <= Geometry::first_of(c, s->head);  // perhaps what lies before the first block, and nothing else
      unsigned got = 0;
      if (!they_wait) got = Bits::take(s, base, size, out, n < released ? n : released, index().bits_of(s));
      if (const unsigned wanted = n - got < room ? n - got : room) {
        const unsigned fresh = charged(wanted, size);
        write_strided(out + got, base + s->bump * size, size, fresh);
        s->bump += fresh;
        got += fresh;
      }
      if (they_wait && released && got < n)
        got += Bits::take(s, base, size, out + got, n - got < released ? n - got : released, index().bits_of(s));
      s->free -= got;
      return got;
    }
    /// Takes back those of the blocks that lie in spans of class `c` and moves the others to the front of `in`; returns how many.
    unsigned release_own(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      PerClass& k = classes_[c];
      const auto cut = Geometry::cut_of(c);
      std::byte** const end = in + n;
      std::byte** strays = in;
      Held held(k.lock);
      for (std::byte** next = in; next != end;) {
        if (index().class_at(*next) != c) [[unlikely]] {
          expect_colour_of(c, *next);
          *strays++ = *next++;
          continue;
        }
        const std::uint32_t head = index().spans()[index().number_of(*next)].head;
        Span* const s = &index().spans()[head];
        std::byte* const base = index().granule_at(head);
        const bool alone = next + 1 == end || static_cast<std::size_t>(next[1] - base) >= Index::bytes_of(s);
        const unsigned before = s->free;
        const unsigned some = alone ? Bits::give_one(s, cut, base, next, index().bits_at(head))
                                    : Bits::give(s, cut, base, next, end, index().bits_at(head));
        next += some;
        s->purged_in = 0;
        s->free = before + some;
        if (!before) {
          if (s->free == s->capacity && fullest(k)) give_back(t, k, s);
          else enlist(k, s);
          continue;
        }
        if (Fit::kBins > 1 && Fit::bin_of(s->free, s->per_capacity) != s->bin) refile(k, s);
        if (s->free == s->capacity) retire(t, k, s);
      }
      k.live -= static_cast<std::size_t>(end - strays);
      return static_cast<unsigned>(strays - in);
    }
    /// What is not of class `c` must be of the same size in another colour.
    MORTISE_COLD void expect_colour_of(unsigned c, std::byte* p) noexcept {
      const unsigned of = plain_class<Classes>(index().class_at(p));
      MORTISE_CHECK(of == plain_class<Classes>(c), Fault::invalid_free, Block(p, 0));
    }

    /// A span with room of another colour of this class, if that colour can do without: it has served nobody since it was last
    /// asked, or the span is empty. So a program that moves to another core takes its memory along. Null while a neighbour is
    /// busy: it is asked, never waited for.
    Span* adopt(PerClass& k, unsigned c) noexcept {
      if constexpr (ColouredMap<Classes>) {
        if (Classes::plain(c) > Classes::kPerColour) return nullptr;
        for (unsigned colour = 0; colour < Classes::kColours; ++colour) {
          const unsigned other = Classes::in_colour(Classes::plain(c), colour);
          PerClass& from = classes_[other];
          if (other == c || !from.span_bytes || !from.lock.try_lock()) continue;
          const bool idle = k.seen[colour] == from.served;
          k.seen[colour] = from.served;
          Span* s = idle ? fullest(from) : from.partial[Fit::kBins - 1].first();
          if (s && !idle && s->free < s->capacity) s = nullptr;
          if (s) {
            from.partial[s->bin].remove(s);
            from.live -= s->capacity - s->free;
            k.live += s->capacity - s->free;
            count_span(from, s, -1);
            count_span(k, s, 1);
            set_class(s, c);
            s->size_class = static_cast<std::uint8_t>(c);
            enlist(k, s);
          }
          from.lock.unlock();
          if (s) return s;
        }
      }
      return nullptr;
    }
    /// Slabs are whole granules: what is beyond those is a wall.
    void set_class(Span* s, unsigned c) noexcept {
      index().set_class(s, c, static_cast<std::uint32_t>(Index::used_bytes_of(s) / Index::kGranule));
    }
    static void count_span(PerClass& k, const Span* s, int by) noexcept {
      const auto n = static_cast<std::size_t>(by);
      k.spans += n;
      k.span_bytes = k.span_bytes + n * round_up(s->capacity * Classes::size_of(s->size_class), Index::kGranule);
    }
    // A span is in the list that its `bin` names, unless it is full.
    static void enlist(PerClass& k, Span* s) noexcept {
      s->bin = static_cast<std::uint8_t>(Fit::bin_of(s->free, s->per_capacity));
      k.partial[s->bin].push(s);
    }
    static void refile(PerClass& k, Span* s) noexcept {
      if (s->free && Fit::bin_of(s->free, s->per_capacity) == s->bin) return;
      k.partial[s->bin].remove(s);
      if (s->free) enlist(k, s);
    }

    /// Gives back the pages inside released blocks of a few spans, so that nobody waits long; 0 when no span is left, else bytes and 1.
    std::size_t purge_some(unsigned c) noexcept {
      std::size_t given = 0;
      if constexpr (PurgesPages<Below>) {
        const std::size_t page = page_bytes_;  // the kernel takes every page that a range begins to cover
        const std::uint8_t era = index().purge_era();
        const std::size_t size = Classes::size_of(c);
        std::uint32_t left = 32;  // granules
        Held held(classes_[c].lock);
        for (auto& list : classes_[c].partial)
          for (Span* s = list.first(); s && left; s = s->next) {
            if (s->purged_in == era) continue;
            s->purged_in = era;
            left -= left < s->granules ? left : s->granules, given |= 1;
            const auto purge = [&](std::size_t from, std::size_t to) {
              from = round_up(from, page), to = round_down(to, page);
              return from < to && this->below.purge_pages(index().base_of(s) + from, to - from) ? to - from : 0;
            };
            Bitmap(index().bits_of(s)).each_run(s->bump, [&](std::size_t from, std::size_t to) { given += purge(from * size, to * size); });
            purge(s->bump * size, Index::used_bytes_of(s));  // never handed out, but a huge page may have come with the first touch
          }
      }
      return given;
    }

    /// An empty span stays while it is the only one with room; otherwise it goes back. So does a long one that is the last of its class.
    void retire(Thread& t, PerClass& k, Span* s) noexcept {
      const bool only_one = k.partial[s->bin].first() == s && k.partial[s->bin].last() == s && fullest(k) == s;
      const bool stays = only_one && (k.spans > 1 || s->capacity <= Geometry::capacity(s->size_class));
      if (!stays) delist(k, s), give_back(t, k, s);
    }
    static void delist(PerClass& k, Span* s) noexcept { k.partial[s->bin].remove(s); }
    /// An empty span that is in no list.
    void give_back(Thread& t, PerClass& k, Span* s) noexcept {
      count_span(k, s, -1);
      if constexpr (Charges<Below>) this->below.charge(Index::used_bytes_of(s) - s->bump * Classes::size_of(s->size_class), true);
      std::memset(index().bits_of(s), 0, (s->bump + 63) / 64 * 8);
      index().set_class(s, kNoClass);
      index().set_span(s->head, s->granules, SpanState::large);
      this->below.release(t, {index().base_of(s), Index::bytes_of(s), kNoClass});
    }

    PerClass classes_[Classes::kCount + 1];
    Preset<4_KiB> page_bytes_;
  };
};

}  // namespace mortise
