// Free spans: kept, merged with their neighbours, reused best fit first, purged when they have been idle.
//
//   release ─► dirty ──(purge: pages back to the system)──► clean ─► given out again, reads as zero
//                └──────────── given out again, pages already there ───────────────►
//
// Dirty and clean spans merge only with their like. A request takes the smallest dirty span that fits, so that pages that are
// resident are used first (a first touch costs hundreds of malloc/free pairs); then the smallest clean one; then it grows the
// heap by an eighth, at least kGrowMin, so that the system is asked rarely.
//
// How pages are purged and moved is the source's affair (`purge_pages`, `move_pages`). Over a source that cannot purge, free
// spans stay dirty and are cleared when zeroes are asked for.
//
// Progress: blocking (one lock). Purging never holds the lock while the kernel works.
// Source: dirty/retained extents as in [Evans06] jemalloc; boundary tags [Knuth73] kept in descriptors.
// Placement: directly above PageIndex; below whatever wants spans or large blocks.
#pragma once

#include <cstring>

#include "mortise/cache/huge_advice.hpp"
#include "mortise/cache/span_bins.hpp"
#include "mortise/cache/span_tails.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/list.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/policy/huge.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `Purge`: when the pages of free spans go back to the system.
/// `Huge`: which part of the heap asks for huge pages.
/// `Sync`: the one lock of all spans.
template <PurgePolicy Purge = purge::AfterDelay<>, HugePolicy Huge = huge::After<8_MiB>, Lock Sync = FutexLock> struct SpanCache {
  static constexpr const char* kName = "SpanCache";
  static constexpr const char* kWhat = "free spans, merged, reused best fit, purged when idle; serves large blocks";
  static constexpr const char* kNeeds = "PageIndex directly below";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Purge", Purge::kName).number("purge_delay_ms", Purge::kDelayMs)
        .policy("Huge", Huge::kName).policy("Sync", Sync::kName);
  }

  template <GivesSpans Below> requires (facts_of<Below>().are_raw()) class Over : public Locked<Below, Sync> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr BlockFacts kFacts = facts_of<Below>().with(Spans::whole);
    using Index = IndexOf<Below>;
    static constexpr std::size_t kGranule = Index::kGranule;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));
    static constexpr std::size_t kGrowMin = 1_MiB, kGrowMax = 32_MiB;
    static constexpr std::size_t kPurgePieceBytes = 4_MiB;  ///< the most that one system call gives back

    bool start(const os::Facts& facts) noexcept {
      tails_.start(facts);
      return start_below(this->below, facts);
    }

    /// A block of whole pages in granules of its own, aligned as asked; zeroed without touching pages that are zero already.
    Block allocate(Thread& t, Request r) noexcept {
      if (!Index::reaches(r)) return {};
      const auto need = static_cast<std::uint32_t>(round_up(r.size ? r.size : 1, kGranule) / kGranule);
      const auto slack = static_cast<std::uint32_t>(r.align > kGranule ? r.align / kGranule - 1 : 0);
      Span* s;
      bool was_clean;
      {
        Held held(this->lock_);
        s = take(need + slack);
        if (!s && !(s = grow(t, need + slack, need))) return {};
        if ((was_clean = s->state == SpanState::clean)) advice_.take(index(), need * kGranule);
        if (slack) s = trim_to_alignment(s, need, r.align);
        else keep_first(s, need);
        mark_large(s, r.size, was_clean);
      }
      if (is_pressed()) purge_older_than(~std::uint64_t{0}, 0, 1);
      if (r.zeroed && !was_clean) std::memset(index().base_of(s), 0, r.size);
      return {index().base_of(s), Index::used_bytes_of(s), kNoClass};
    }

    void release(Thread&, Block b) noexcept {
      Span* s = index().span_of(b.ptr);
      MORTISE_CHECK(s->state == SpanState::large && index().base_of(s) == b.ptr, Fault::invalid_free, b);
      const bool at_once = gives_back_at_once(), is_clean = at_once && purge_span(s);
      {
        Held held(this->lock_);
        uncount_large(s);
        s->since_ms = os::now_ms();
        insert(s, is_clean ? SpanState::clean : SpanState::dirty);
      }
      if (!at_once) purge_excess(false);
    }

    /// Tells that `n` large blocks, side by side, are one from now on.
    void join_large(std::size_t n) noexcept {
      Held held(this->lock_);
      large_count_ -= n - 1;
    }

    /// Grows into its tail and a free neighbour, or gives granules back. O(1). Errors: an empty block without room, or at a limit.
    Block resize_in_place(Thread&, Block b, std::size_t bytes) noexcept {
      if (bytes > Index::kReachBytes) return {};
      Span* s = index().span_of(b.ptr);
      const std::uint32_t have = s->granules, need = static_cast<std::uint32_t>(round_up(bytes ? bytes : 1, kGranule) / kGranule);
      if (const std::size_t before = Index::used_bytes_of(s); need != have || bytes > before) {
        Held held(this->lock_);
        if (need < have) {
          tails_.join(this->below, s);
          Span* rest = index().set_span(s->head + need, have - need, SpanState::dirty);
          index().set_span(s->head, need, SpanState::large);
          rest->since_ms = os::now_ms();
          insert(rest, SpanState::dirty);
        } else if (!extend(s, need - have, bytes)) {
          return {};
        }
        count_large(Index::used_bytes_of(s) - before, 0);
      }
      if (need < have) purge_excess(gives_back_at_once());
      return {b.ptr, Index::used_bytes_of(s), kNoClass};
    }

    /// Moves the pages of a large block to a larger span: page-table entries move, bytes do not. Not when a resident span is there to
    /// be copied to: a copy is cheaper than first touches of what the block grows by. Nor a few pages.
    Block resize_by_moving(Thread& t, Block b, std::size_t bytes) noexcept requires MovesPages<Below> {
      if (bytes < b.size || advice_.keeps_in_place(index(), b.size) || has_dirty(bytes)) return {};
      const Block target = allocate(t, {.size = bytes});
      if (!target) return {};
      Span* old = index().span_of(b.ptr);
      const PagesMoved moved = this->below.move_pages(b.ptr, target.ptr, Index::bytes_of(old));
      if (moved == PagesMoved::no) return release(t, target), Block{};
      if (moved == PagesMoved::target_lost) return lose_large(target), Block{};
      if (moved == PagesMoved::source_lost) return lose_large(b), target;
      Held held(this->lock_);
      uncount_large(old);
      advice_.repeat(b.ptr, Index::bytes_of(old));
      return insert(old, SpanState::clean), target;
    }

    /// Gives the pages of all dirty spans back; where a limit is near, which counts free spans as well, the spans too. O(free spans).
    std::size_t trim(Thread& t) noexcept {
      rest();
      const std::size_t given = purge_older_than(~std::uint64_t{0});
      if constexpr (Limits<Below>)
        if (Held held(this->lock_); room_below(this->below) < this->below.limit_bytes() / kNearLimit) unmap_free(t);
      return given + trim_below(this->below, t);
    }

    /// Gives back pages of spans free since before `deadline_ms` until `kept` bytes are left; returns the bytes. The lock is not held.
    /// Spans that the system does not take (locked in memory) stay dirty and are not tried again at once; after `refusals` it gives up.
    std::size_t purge_older_than(std::uint64_t deadline_ms, std::size_t kept = 0, unsigned refusals = 64) noexcept {
      for (std::size_t given = 0;;) {
        Span* s;
        {
          Held held(this->lock_);
          s = refusals && idle_bytes() > kept ? dirty_.free_since(deadline_ms) : nullptr;
          if (!s) return keep_refused(), given;
          remove(s);
          constexpr std::uint32_t piece = kPurgePieceBytes / kGranule;
          if (s->granules > piece) put(s->head + piece, s->granules - piece, SpanState::dirty, s->since_ms);  // usable meanwhile
          index().set_span(s->head, s->granules > piece ? piece : s->granules, SpanState::large);  // ours alone
          purging_.push(s);
          purging_bytes_ += Index::bytes_of(s);
        }
        const bool is_clean = purge_span(s);
        Held held(this->lock_);
        purging_.remove(s);
        if (!is_clean) { refused_.push(s), --refusals; continue; }
        given += Index::bytes_of(s), purging_bytes_ -= Index::bytes_of(s);
        insert(s, SpanState::clean);
      }
    }
    /// Purges what has been free for the delay. Returns the bytes that are dirty still.
    std::size_t purge_idle() noexcept {
      if (const std::int64_t delay = purge_ms(); delay > 0) {
        const std::uint64_t now = os::now_ms(), age = static_cast<std::uint64_t>(delay);
        purge_older_than(now > age ? now - age : 0);
      }
      return idle_bytes();
    }
    std::size_t idle_bytes() const noexcept { return dirty_bytes_.load(Order::relaxed); }
    std::int64_t purge_ms() const noexcept { return delay_ms_; }
    void set_purge_ms(std::int64_t ms) noexcept { delay_ms_ = ms; }

    /// Above `bytes` in use and dirty together, what is freed is purged at once and nothing stays dirty.
    void set_soft_limit_bytes(std::size_t bytes) noexcept { soft_bytes_.store(bytes, Order::relaxed); }
    MORTISE_HOT bool is_pressed() noexcept {
      const std::size_t soft = soft_bytes_.load(Order::relaxed);
      return soft && large_bytes() + idle_bytes() > soft;
    }
    void set_huge_pages(HugePages pages) noexcept requires AdvisesHuge<Below> {
      advice_.set(pages);
      this->below.set_huge_pages(pages);
    }

    /// In the child nobody goes on with what other threads were purging: it is taken back as dirty.
    void reset_after_fork() noexcept {
      Locked<Below, Sync>::reset_after_fork();
      while (Span* s = purging_.pop()) refused_.push(s);
      keep_refused();
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      u.live += large_bytes();
      u.large += large_bytes();
      u.large_count += large_count_;
      u.dirty += idle_bytes() + purging_bytes_ + tails_.counted_bytes();
      u.purged += clean_bytes_ + tails_.untouched_bytes();
      u.soft_limit = soft_bytes_.load(Order::relaxed);
    }

    /// Walks every free span and reports heap_inconsistent when lists, sums and descriptors disagree. O(free spans).
    void audit() noexcept {
      if constexpr (Audits<Below>) this->below.audit();
      Held held(this->lock_);
      MORTISE_AUDIT(dirty_.audit(index().spans(), SpanState::dirty) * kGranule == idle_bytes());
      MORTISE_AUDIT(clean_.audit(index().spans(), SpanState::clean) * kGranule == clean_bytes_);
    }

   private:
    Index& index() noexcept { return this->below.page_index(); }
    SpanBins& bins_of(SpanState state) noexcept { return state == SpanState::dirty ? dirty_ : clean_; }
    /// Changes the sum of bytes in spans of `state` by `bytes`, which may be a negative number in unsigned form.
    void add_bytes(SpanState state, std::size_t bytes) noexcept {
      if (state == SpanState::dirty) dirty_bytes_.store(idle_bytes() + bytes, Order::relaxed);  // read without the lock
      else clean_bytes_ += bytes;
    }
    void count_large(std::size_t bytes, std::size_t blocks) noexcept {  // the same for large blocks
      large_bytes_.store(large_bytes() + bytes, Order::relaxed);
      large_count_ += blocks;
    }
    void uncount_large(Span* s) noexcept {
      count_large(std::size_t{0} - Index::used_bytes_of(s), ~std::size_t{0});
      tails_.join(this->below, s);
    }
    std::size_t large_bytes() const noexcept { return large_bytes_.load(Order::relaxed); }
    bool purge_span(Span* s) noexcept {
      if constexpr (PurgesPages<Below>) return this->below.purge_pages(index().base_of(s), Index::bytes_of(s)); else return false;
    }
    bool gives_back_at_once() noexcept { return purge_ms() == 0 || is_pressed(); }
    /// What is dirty goes back: all of it, or what is more than may stay.
    void purge_excess(bool at_once) noexcept {
      std::size_t most = at_once ? 0 : SIZE_MAX;
      if constexpr (requires { Purge::kKeptBytesMax; }) most = most < Purge::kKeptBytesMax ? most : Purge::kKeptBytesMax;
      if (idle_bytes() > most) purge_older_than(~std::uint64_t{0}, most, 1);
    }
    void keep_refused() noexcept {
      for (Span* s; (s = refused_.pop()); insert(s, SpanState::dirty)) s->since_ms = os::now_ms(), purging_bytes_ -= Index::bytes_of(s);
    }
    static bool is_free(const Span* s) noexcept { return s->state == SpanState::dirty || s->state == SpanState::clean; }
    /// Free granules, in their list as they are.
    void put(std::uint32_t head, std::uint32_t granules, SpanState state, std::uint64_t since_ms) noexcept {
      Span* s = index().set_span(head, granules, state);
      s->since_ms = since_ms;
      bins_of(state).put(s);
      add_bytes(state, Index::bytes_of(s));
    }
    void remove(Span* s) noexcept {
      bins_of(s->state).remove(s);
      add_bytes(s->state, std::size_t{0} - Index::bytes_of(s));
    }
    Span* neighbour_after(const Span* s) noexcept {
      const std::uint32_t at = s->head + s->granules;
      Span* const n = at < index().covered() ? &index().spans()[at] : nullptr;
      return n && is_free(n) && n->head == at ? n : nullptr;
    }
    Span* neighbour_before(const Span* s) noexcept {
      Span* const n = s->head ? &index().spans()[index().spans()[s->head - 1].head] : nullptr;
      return n && is_free(n) && n->head + n->granules == s->head ? n : nullptr;
    }
    /// Makes `s` free, merged with free neighbours of the same state.
    void insert(Span* s, SpanState state) noexcept {
      std::uint32_t head = s->head, granules = s->granules;
      index().set_span(head, granules, SpanState::none);
      if (Span* n = neighbour_after(s); n && n->state == state) {
        remove(n);
        granules += n->granules;
        n->state = SpanState::none;
      }
      if (Span* n = neighbour_before(s); n && n->state == state) {
        remove(n);
        head = n->head;
        granules += n->granules;
        index().spans()[s->head - 1].state = SpanState::none;
      }
      put(head, granules, state, s->since_ms);
    }
    /// A large block gets `more` granules and ends at byte `bytes`, behind where it ended. False without room, or at a limit.
    bool extend(Span* s, std::uint32_t more, std::size_t bytes) noexcept {
      if (!more) return tails_.shorten(this->below, s, bytes);
      Span* const next = neighbour_after(s);
      if (!next || next->granules < more || !tails_.shorten(this->below, s, Index::bytes_of(s))) return false;
      const SpanState state = next->state;
      remove(next);
      next->state = SpanState::none;  // no end of a span within it
      index().spans()[s->head + s->granules - 1].state = SpanState::none;
      if (next->granules > more) put(next->head + more, next->granules - more, state, next->since_ms);
      index().set_span(s->head, s->granules + more, SpanState::large);
      tails_.cut(this->below, s, bytes, state == SpanState::clean);
      return true;
    }
    /// A large block whose memory is gone: nobody's from now on.
    void lose_large(Block b) noexcept {
      Held held(this->lock_);
      Span* s = index().span_of(b.ptr);
      uncount_large(s);
      index().set_span(s->head, s->granules, SpanState::none);
    }

    static constexpr unsigned kLooks = 16, kNearLimit = 64;
    /// The smallest free span of at least `need` granules, dirty ones first, out of its list, or null. Of a mixed bin `looks` are seen.
    [[gnu::noinline]] Span* take(std::uint32_t need, unsigned looks = kLooks) noexcept {
      Span* s = dirty_.find(need, looks);
      if (!s) s = clean_.find(need, looks);
      if (s) remove(s);
      return s;
    }
    bool has_dirty(std::size_t bytes) noexcept {
      if (bytes > Index::kReachBytes) return false;
      Held held(this->lock_);
      return dirty_.find(static_cast<std::uint32_t>(round_up(bytes, kGranule) / kGranule), kLooks);
    }

    Span* grow(Thread& t, std::uint32_t need, std::uint32_t block) noexcept {
      const std::size_t least = std::size_t{need} * kGranule;
      std::size_t wish = grown_bytes_ / 8;
      wish = wish < kGrowMin ? kGrowMin : wish > kGrowMax ? kGrowMax : wish;
      const bool for_all = advice_.asks_from(grown_bytes_), is_huge = for_all || advice_.asks_for(std::size_t{block} * kGranule);
      if (is_huge) wish = advice_.to_boundary(index(), wish > least ? wish : least);
      Block b = wish > least ? this->below.allocate(t, {.size = round_up(wish, kGranule)}) : Block{};
      if (!b) b = this->below.allocate(t, {.size = least});
      if (!b) {  // no more to be had: now every free span is worth a look, and what is too small makes room
        if (Span* s = take(need, ~0u)) return s;
        if (least <= room_below(this->below) + idle_bytes() + clean_bytes_ && unmap_free(t)) b = this->below.allocate(t, {.size = least});
        if (!b) return nullptr;
      }
      if (is_huge) advice_.ask(b, for_all);
      grown_bytes_ += b.size;
      Span* s = index().span_of(b.ptr);
      s->since_ms = 0, insert(s, SpanState::clean);  // it may merge with what was the end of the heap
      return take(need);
    }
    /// Asks for huge pages no longer. The kernel may have made some of what was purged: no span is clean, and slabs are to be purged again.
    void rest() noexcept {
      Held held(this->lock_);
      if (!advice_.rest(index())) return;
      while (Span* s = clean_.free_since(~std::uint64_t{0})) remove(s), insert(s, SpanState::dirty);
      index().begin_purge_era();
    }
    /// Gives all free spans back below. False when there were none, or where below takes no parts back.
    bool unmap_free(Thread& t) noexcept {
      bool any = false;
      if constexpr (ReleasesParts<Below>)
        for (SpanBins* bins : {&dirty_, &clean_})
          for (Span* s; (s = bins->free_since(~std::uint64_t{0})); any = true) {
            remove(s);
            this->below.release_part(t, {index().base_of(s), Index::bytes_of(s), kNoClass});
          }
      return any;
    }
    /// Keeps the first `need` granules of `s`, which is in no list, and puts the rest back.
    void keep_first(Span* s, std::uint32_t need) noexcept {
      if (s->granules == need) return;
      put(s->head + need, s->granules - need, s->state, s->since_ms);
      index().set_span(s->head, need, s->state);
    }
    Span* trim_to_alignment(Span* s, std::uint32_t need, std::size_t align) noexcept {
      const SpanState state = s->state;
      const std::uintptr_t base = address_of(index().base_of(s));
      if (const auto skip = static_cast<std::uint32_t>((round_up(base, align) - base) / kGranule)) {
        const std::uint32_t granules = s->granules - skip;
        put(s->head, skip, state, s->since_ms);
        Span* const rest = index().set_span(s->head + skip, granules, state);
        rest->since_ms = s->since_ms, s = rest;
      }
      keep_first(s, need);
      return s;
    }
    void mark_large(Span* s, std::size_t bytes, bool was_clean) noexcept {
      index().set_span(s->head, s->granules, SpanState::large);
      tails_.cut(this->below, s, bytes, was_clean);
      count_large(Index::used_bytes_of(s), 1);
    }

    Preset<std::int64_t{Purge::kDelayMs}> delay_ms_;
    Atomic<std::size_t> dirty_bytes_{0}, soft_bytes_{0}, large_bytes_{0};
    std::size_t clean_bytes_ = 0, purging_bytes_ = 0, grown_bytes_ = 0, large_count_ = 0;
    SpanTails<Below> tails_;
    HugeAdvice<Huge, Below> advice_;
    SpanBins dirty_, clean_;
    List<Span> purging_;  ///< spans whose pages a thread is giving back, without the lock
    List<Span> refused_;  ///< spans whose pages the system did not take; both are in purging_bytes_
  };
};

}  // namespace mortise
