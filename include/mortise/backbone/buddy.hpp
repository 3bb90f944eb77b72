// Buddies: blocks of powers of two, each aligned to its own size; two free halves of one block become that block again.
//
//   order 8   ┌───────────────────────────────┐
//             │               A               │      split until the half fits:  A ─► B, C    B ─► D, E
//             ├───────────────┬───────────────┤
//   order 7   │       B       │       C       │      a block's buddy lies at its address with the bit of its size flipped,
//             ├───────┬───────┼───────────────┤      so that merging needs no search and no neighbour's tag
//   order 6   │   D   │   E   │
//             └───────┴───────┘
//   marks     [D]  .  [E]  .   [C]  .   .   .        a byte for each 32 bytes of heap, beside the heap: order, and in use or free or purged
//
// 1. allocate: the smallest free block of at least the order asked for, halved until it is of that order.
// 2. release: while the buddy is free and whole, both become their parent. A mark that is not at the start of a block is
//    stale; nobody asks for it, since a buddy is only looked for when its parent is split.
//
// Where a limit is set (LimitedTo below), a block ends with the page that was asked for: the rest of it, its tail, is given back to the
// system, does not count, and is told by the marks behind the block's first one, which nobody asks for either.
//
// Bound: at most one split or merge an order, so O(log(heap / 32)). Waste: up to half of a block, a quarter on average; no header.
// Progress: blocking, one lock. Source: binary buddies [Knowlton65], [Knuth73] 2.5; marks out of line as in [Gorman04].
// Placement: directly above a source with one window of addresses. Above it anything, a thread cache for instance.
#pragma once

#include <algorithm>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/data/list.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `Sync`: the one lock of the backbone.
/// `Purge`: whether released blocks of 128 KiB and more give their pages back at once; a delay counts as never.
template <Lock Sync = FutexLock, PurgePolicy Purge = purge::AtOnce> struct Buddy {
  static constexpr const char* kName = "Buddy";
  static constexpr const char* kWhat = "blocks of powers of two, halved and merged with their other half";
  static constexpr const char* kNeeds = "a source with one window of addresses directly below (MmapHeap, BrkHeap, StaticHeap)";
  static constexpr std::size_t kUnit = 32;  ///< the smallest block; a byte of marks for each
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Sync", Sync::kName).policy("Purge", Purge::kName).number("block_bytes_min", kUnit);
  }

  template <Contiguous Below> class Over : public Locked<Below, Sync> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));
    static constexpr std::size_t kGrowMin = 256_KiB;
    static constexpr std::size_t kPurgeBytes = 128_KiB;
    static constexpr std::size_t kLargest = std::bit_floor(Below::kReach);

    /// The heap is as much of the window as the source has room for a table of marks for.
    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      Held held(this->lock_);
      page_bytes_ = facts.page_bytes;
      origin_ = this->below.origin();
      for (reach_ = Below::kReach; !marks_ && reach_ >= Below::kGranule; reach_ /= 2) {
        marks_ = reinterpret_cast<Mark*>(this->below.side(round_up(reach_ / kUnit, kStep)));
        if (marks_) return true;
      }
      return marks_ != nullptr;
    }

    /// A block of the next power of two, aligned to its size. O(log heap).
    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > kLargest || r.align > kLargest) return {};
      const unsigned order = order_for(r.size > r.align ? r.size : r.align);
      std::byte* const p = with(this->lock_, [&] { return take(t, order); });
      if (!p) return {};
      cut_tail(p, order, r.size);
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, bytes_of(order) - tail_of(p, order)};
    }

    /// Its pages go back before the lock is taken. O(log heap).
    void release(Thread&, Block b) noexcept {
      const unsigned order = checked(b.ptr);
      if (Purge::kDelayMs == 0 && bytes_of(order) >= kPurgeBytes) purge_inside(b.ptr, order);
      with(this->lock_, [&] {
        const unsigned now = checked(b.ptr);
        live_ -= bytes_of(now);
        join_tail(b.ptr, now, true);
        give(b.ptr, now);
      });
    }

    bool holds(const std::byte* p) const noexcept { return static_cast<std::size_t>(p - origin_) < glance(extent_); }
    Block block_of(std::byte* p) noexcept { return {p, 0}; }
    Block measure(Block b) noexcept {
      const unsigned order = checked(b.ptr);
      return {b.ptr, bytes_of(order) - tail_of(b.ptr, order)};
    }

    /// Gives upper halves back, or takes its tail and free buddies above it, if a limit allows. Alignment asked for beyond the new
    /// size is kept: the place stays.
    Block resize_in_place(Thread&, Block b, std::size_t bytes) noexcept {
      if (bytes > kLargest) return {};
      const unsigned wish = order_for(bytes);
      Held held(this->lock_);
      unsigned order = checked(b.ptr);
      const unsigned order_was = order;
      if (wish > order && !can_grow(b.ptr, order, wish)) return {};
      const bool stays = wish == order && bytes <= bytes_of(order) - tail_of(b.ptr, order);
      if (!stays && !join_tail(b.ptr, order, wish < order)) return {};
      live_ += bytes_of(wish) - bytes_of(order);
      set_mark(b.ptr, kInUse | wish);
      if (wish < order) purge_upper(b.ptr, wish, order);
      for (; order < wish; ++order) remove(b.ptr + bytes_of(order), order);
      for (; order > wish; --order) give(b.ptr + bytes_of(order - 1), order - 1);
      if (wish != order_was) set_tail(b.ptr, wish, 0);
      return {b.ptr, bytes_of(wish) - tail_of(b.ptr, wish)};
    }

    /// Gives back whole pages inside free blocks. O(free blocks); a system call for each that was none the last time, since at a limit
    /// every failure comes here.
    std::size_t trim(Thread& t) noexcept {
      std::size_t given = 0;
      {
        Held held(this->lock_);
        for (unsigned order = log2_floor(page_bytes_) + 1; order < kOrders; ++order)
          for (Free* f = free_[order].first(); f; f = f->next) {
            if (mark_of(bytes(f)) == (kPurged | order)) continue;
            const std::size_t gone = purge_inside(bytes(f), order);
            if (gone) set_mark(bytes(f), kPurged | order);
            given += gone;
          }
      }
      return given + trim_below(this->below, t);
    }

    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      const std::size_t tails = tails_.load(Order::relaxed);
      u.live += live_ - tails;
      u.cached += grown_ - live_;
      u.purged += tails;
    }

    /// Walks every block by its mark and every list; reports heap_inconsistent when they disagree or two buddies are both free.
    /// O(blocks).
    void audit() noexcept {
      Held held(this->lock_);
      std::size_t live = 0, idle = 0, listed = 0;
      for (std::byte* p = origin_; p < origin_ + extent_;) {
        const Mark m = mark_of(p);
        const std::size_t size = m ? bytes_of(m & kOrderBits) : Below::kGranule;  // no mark: not ours
        MORTISE_AUDIT(is_aligned(p, m ? size : kUnit));
        (m & kFree ? idle : m & kInUse ? live : listed) += m ? size : 0;
        p += size;
      }
      MORTISE_AUDIT(live == live_ && idle == grown_ - live_ && listed == 0);
      for (unsigned order = 0; order < kOrders; ++order) {
        MORTISE_AUDIT(free_[order].is_empty() == !(filled_ >> order & 1));
        for (Free* f = free_[order].first(); f; f = f->next) {
          MORTISE_AUDIT(is_free(bytes(f), order) && !is_free(buddy_of(bytes(f), order), order));
          listed += bytes_of(order);
        }
      }
      MORTISE_AUDIT(listed == idle);
    }

   private:
    using Mark = std::uint8_t;
    static constexpr unsigned kInUse = 0x80, kFree = 0x40, kOrderBits = 0x3f;
    static constexpr unsigned kPurged = kFree | 0x80;  ///< free, and its pages were given back since
    static constexpr unsigned kUnitLog2 = log2_floor(kUnit), kOrders = 64;
    static constexpr std::size_t kStep = Below::kGranule < 64_KiB ? Below::kGranule : 64_KiB;  // marks grow by this much at least

    /// A free block begins with its links.
    struct Free {
      Free* next;
      Free* prev;
    };
    static_assert(sizeof(Free) <= kUnit, "the links fit the smallest block");
    static std::byte* bytes(Free* f) noexcept { return reinterpret_cast<std::byte*>(f); }

    static constexpr std::size_t bytes_of(unsigned order) noexcept { return std::size_t{1} << order; }
    static unsigned order_for(std::size_t size) noexcept { return size <= kUnit ? kUnitLog2 : log2_floor(size - 1) + 1; }
    static std::byte* buddy_of(std::byte* p, unsigned order) noexcept {
      return reinterpret_cast<std::byte*>(address_of(p) ^ bytes_of(order));
    }

    Mark mark_of(const std::byte* p) const noexcept { return glance(marks_[static_cast<std::size_t>(p - origin_) >> kUnitLog2]); }
    void set_mark(const std::byte* p, unsigned mark) noexcept {
      show(marks_[static_cast<std::size_t>(p - origin_) >> kUnitLog2], static_cast<Mark>(mark));
    }
    bool is_free(const std::byte* p, unsigned order) const noexcept {
      return holds(p) && (mark_of(p) & (kFree | kOrderBits)) == (kFree | order);
    }

    /// The order of the block in use at `p`; reports what is none.
    unsigned checked(const std::byte* p) const noexcept {
      const Block b{const_cast<std::byte*>(p), 0};
      const Mark m = mark_of(p);
      MORTISE_CHECK(is_aligned(p, kUnit) && m & (kInUse | kFree), Fault::invalid_free, b);
      MORTISE_CHECK(!(m & kFree), Fault::double_free, b);
      return m & kOrderBits;
    }

    // -- tails: a number of pages to the base of 64, in marks that look like nobody's

    static constexpr unsigned kDigits = 6, kDigitBits = 6;
    bool has_tail(unsigned order) const noexcept { return bytes_of(order) > page_bytes_ && bytes_of(order) > kUnit * kDigits; }
    std::size_t tail_of(const std::byte* p, unsigned order) const noexcept {
      std::size_t pages = 0;
      if (has_tail(order))
        for (unsigned i = kDigits; i; --i) pages = pages << kDigitBits | mark_of(p + i * kUnit);
      return pages * page_bytes_;
    }
    void set_tail(std::byte* p, unsigned order, std::size_t bytes) noexcept {
      if (!has_tail(order)) return;
      std::size_t pages = bytes / page_bytes_;
      for (unsigned i = 1; i <= kDigits; ++i, pages >>= kDigitBits) set_mark(p + i * kUnit, pages & ((1 << kDigitBits) - 1));
    }
    /// Of a fresh block what lies behind the page of byte `bytes`, where a limit is set and the system takes it.
    void cut_tail(std::byte* p, unsigned order, std::size_t bytes) noexcept {
      std::size_t tail = 0;
      if constexpr (Limits<Below> && Charges<Below> && PurgesPages<Below>)
        if (has_tail(order) && this->below.limit_bytes() != kNoLimit) {
          const std::size_t used = round_up(bytes ? bytes : 1, page_bytes_);
          if (used < bytes_of(order) && this->below.purge_pages(p + used, bytes_of(order) - used)) tail = bytes_of(order) - used;
          this->below.uncharge(tail);
          tails_.fetch_add(tail, Order::relaxed);
        }
      set_tail(p, order, tail);
    }
    /// The block is whole again; false when a limit forbids it.
    bool join_tail(std::byte* p, unsigned order, [[maybe_unused]] bool must) noexcept {
      if constexpr (Charges<Below>)
        if (const std::size_t tail = tail_of(p, order)) {
          if (!this->below.charge(tail, must)) return false;
          tails_.fetch_sub(tail, Order::relaxed);
        }
      set_tail(p, order, 0);
      return true;
    }

    // -- inside the critical section

    void put(std::byte* p, unsigned order) noexcept {
      set_mark(p, kFree | order);
      free_[order].push(reinterpret_cast<Free*>(p));
      filled_ |= bytes_of(order);
    }
    void remove(std::byte* p, unsigned order) noexcept {
      free_[order].remove(reinterpret_cast<Free*>(p));
      if (free_[order].is_empty()) filled_ &= ~bytes_of(order);
    }

    std::byte* take(Thread& t, unsigned order) noexcept {
      if (!(filled_ >> order) && !grow(t, order)) return nullptr;
      auto from = static_cast<unsigned>(std::countr_zero(filled_ >> order)) + order;
      std::byte* const p = bytes(free_[from].first());
      remove(p, from);
      while (from > order) {
        --from;
        put(p + bytes_of(from), from);
      }
      set_mark(p, kInUse | order);
      live_ += bytes_of(order);
      return p;
    }
    /// Makes the block at `p` free, merged with its buddy, and with the parent's, as long as they are free.
    void give(std::byte* p, unsigned order) noexcept {
      set_mark(p, kFree | order);  // told as a double free if it comes again, even when it is merged into another
      for (std::byte* buddy; is_free(buddy = buddy_of(p, order), order); ++order) {
        remove(buddy, order);
        if (buddy < p) p = buddy;
      }
      put(p, order);
    }
    bool can_grow(std::byte* p, unsigned order, unsigned wish) const noexcept {
      if (!is_aligned(p, bytes_of(wish))) return false;  // it is an upper half on the way
      for (; order < wish; ++order)
        if (!is_free(p + bytes_of(order), order)) return false;
      return true;
    }

    /// More memory from below, until a block of `order` is free. The source most likely goes on where it stopped: so much is asked
    /// for that a whole block lies in what follows; if it lies elsewhere, twice the block does in any case.
    bool grow(Thread& t, unsigned order) noexcept {
      const std::size_t least = bytes_of(order), share = round_down(grown_ / 8, Below::kGranule);
      const std::size_t wish = std::max({least, kGrowMin, share});
      const std::size_t gap = round_up(address_of(origin_ + extent_), least) - address_of(origin_ + extent_);
      for (const std::size_t ask : {gap + wish, gap + least, least, 2 * least}) {
        add(t, ask);
        if (filled_ >> order) return true;
      }
      return false;
    }
    /// A region from below, cut into the largest blocks that its alignment allows.
    void add(Thread& t, std::size_t ask) noexcept {
      if (ask > reach_) return;
      const Block b = this->below.allocate(t, {.size = ask});
      if (!b) return;
      if (!cover(b.end())) return this->below.release(t, b);
      grown_ += b.size;
      for (std::byte* p = b.ptr; p != b.end();) {
        const unsigned fits = log2_floor(static_cast<std::size_t>(b.end() - p));
        const auto aligned = static_cast<unsigned>(std::countr_zero(address_of(p)));
        const unsigned order = fits < aligned ? fits : aligned;
        give(p, order);
        p += bytes_of(order);
      }
    }
    /// Sees to it that the marks reach `end`.
    bool cover(const std::byte* end) noexcept {
      const auto extent = static_cast<std::size_t>(end - origin_);
      if (extent <= extent_) return true;
      const std::size_t need = round_up(extent / kUnit, kStep);
      if (extent > reach_) return false;
      if (need > backed_) {
        if (!this->below.back_side(reinterpret_cast<std::byte*>(marks_) + backed_, need - backed_)) return false;
        backed_ = need;
      }
      show(extent_, extent);
      return true;
    }

    /// The whole pages of a block behind its links. O(1) but for the kernel's work.
    std::size_t purge_inside(std::byte* p, unsigned order) noexcept {
      if constexpr (PurgesPages<Below>) {
        const std::size_t skipped = round_up(address_of(p) + sizeof(Free), page_bytes_) - address_of(p);
        if (skipped < bytes_of(order) && this->below.purge_pages(p + skipped, bytes_of(order) - skipped)) return bytes_of(order) - skipped;
      }
      return 0;
    }

    /// Of a block that had `order` the pages behind what it has now, as if they were released.
    void purge_upper(std::byte* p, unsigned now, unsigned order) noexcept {
      const std::size_t kept = round_up(bytes_of(now), page_bytes_), bytes = bytes_of(order);
      if constexpr (PurgesPages<Below> && Purge::kDelayMs == 0)
        if (kept < bytes && bytes - kept >= kPurgeBytes) this->below.purge_pages(p + kept, bytes - kept);
    }

    std::byte* origin_ = nullptr;
    std::size_t extent_ = 0;  ///< from the origin to the end of the highest region
    Mark* marks_ = nullptr;
    std::uint64_t filled_ = 0;  ///< a bit for each order that has free blocks
    List<Free> free_[kOrders];
    std::size_t reach_ = 0, backed_ = 0, live_ = 0, grown_ = 0;
    Atomic<std::size_t> tails_{0};  ///< of live blocks: cut outside the lock, by who is given the block
    Preset<4_KiB> page_bytes_;
  };
};

}  // namespace mortise
