// The bottom of a heap that shares its memory with others: spans on lease from a store, all of which can be given back at once.
//
//   heap A   heap B   heap C        each a stack of its own: caches, slabs, and at the bottom a lease
//     │        │        │
//   lease    lease    lease         a list of the spans that are out to it, a count of their bytes, a limit
//     └────────┼────────┘
//          the store                SpanCache over PageIndex over a source: one window, one index, one set of free spans
//
// A leased span names its owner in its descriptor, so that a pointer tells whose it is. Giving everything back walks the list and
// never looks at a block: O(spans). A lease within another counts towards the limits of both.
//
// All zeros is one that is not bound. Progress: blocking (one lock), and as the store. Source: regions [Tofte97], as heaps one can destroy [Berger02].
// Placement: a source; above it what stands on PageIndex (Slab). The store outlives it.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// A span that reads as zero and of which nothing is in memory, also when it was used before: of the tables that a heap needs it touches
/// little, and of ten thousand heaps that little is all there should be.
template <PurgesPages Store> Block allocate_untouched(Store& store, typename Store::Thread& t, std::size_t bytes) noexcept {
  const Block b = store.allocate(t, {.size = bytes});
  if (b && !store.purge_pages(b.ptr, b.size)) std::memset(b.ptr, 0, b.size);
  return b;
}

template <Indexed Store> class SpanLease {
 public:
  struct Thread {};
  using Classes = NoClasses;
  using Index = IndexOf<Store>;
  static constexpr const char* kName = "SpanLease";
  static constexpr const char* kWhat = "spans on lease from a store that heaps share, given back all at once";
  static constexpr Progress kProgress = weakest(Store::kProgress, Progress::of(Guarantee::blocking));
  static constexpr std::size_t kGranule = Index::kGranule;

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  /// Once, before first use. `owner` is this lease's number, not 0; `parent` may be null.
  void bind(Store& store, std::uint32_t owner, SpanLease* parent) noexcept {
    store_ = &store;
    owner_ = owner;
    parent_ = parent;
  }

  Block allocate(Thread&, Request r) noexcept {
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    if (bytes < r.size || !take(bytes)) return {};
    typename Store::Thread t;
    r.size = bytes;
    const Block b = store_->allocate(t, r);
    if (!b) return give(bytes), Block{};
    Held held(lock_);
    enlist(index().span_of(b.ptr));
    leased_ += b.size;
    blocks_ += 1;
    return b;
  }
  void release(Thread&, Block b) noexcept {
    Span* s = index().span_of(b.ptr);
    const std::size_t bytes = Index::bytes_of(s);
    {
      Held held(lock_);
      MORTISE_CHECK(s->owner == owner_, Fault::invalid_free, b);
      delist(s);
      leased_ -= bytes;
      blocks_ -= 1;
    }
    typename Store::Thread t;
    store_->release(t, {b.ptr, bytes, kNoClass});
    give(bytes);
  }
  Block resize_in_place(Thread&, Block b, std::size_t n) noexcept requires Resizes<Store> {
    const std::size_t before = Index::bytes_of(index().span_of(b.ptr)), after = round_up(n ? n : 1, kGranule);
    if (after < n || (after > before && !take(after - before))) return {};
    typename Store::Thread t;
    const Block resized = store_->resize_in_place(t, b, after);
    if (!resized && after > before) give(after - before);
    if (resized && after < before) give(before - after);
    if (!resized) return resized;
    Held held(lock_);
    leased_ += resized.size - before;
    return resized;
  }

  bool holds(const std::byte* p) noexcept { return store_->holds(p); }
  Block block_of(std::byte* p) noexcept { return store_->block_of(p); }
  Block measure(Block b) noexcept { return store_->measure(b); }
  Index& page_index() noexcept { return store_->page_index(); }

  /// Zeroed bookkeeping memory; it goes back with everything else.
  std::byte* meta(std::size_t n) noexcept {
    typename Store::Thread t;
    const Block b = allocate_untouched(*store_, t, round_up(n, kGranule));
    if (!b) return nullptr;
    Held held(lock_);
    enlist(index().span_of(b.ptr));
    meta_ += b.size;
    return b.ptr;
  }

  /// Gives every span back, whatever blocks are in it. Nobody may use the heap above any more. Returns how many there were.
  /// Spans that lie side by side, as those of a heap mostly do, go back as one: a descriptor is all that is touched of each.
  std::size_t give_back_all() noexcept {
    std::size_t spans = 0;
    Held held(lock_);
    Run run;
    for (std::uint32_t number = first_; number; ++spans) {
      Span* s = &index().spans()[number - 1];
      number = s->owner_next;
      if (s->state == SpanState::slab) clear_slab(s);
      s->owner = s->owner_next = s->owner_prev = 0;
      if (run.add(s->head, s->granules)) continue;
      give_back(run);
      run = {s->head, s->granules, 1};
    }
    give_back(run);
    give(taken_.load(Order::relaxed));
    first_ = 0;
    leased_ = blocks_ = meta_ = 0;
    return spans;
  }

  bool charge(std::size_t bytes, bool must) noexcept {
    if (!must) return take(bytes);
    for (SpanLease* l = this; l; l = l->parent_) l->taken_.fetch_add(bytes, Order::relaxed);
    return true;
  }
  void uncharge(std::size_t bytes) noexcept { give(bytes); }

  std::size_t limit_bytes() noexcept { return limit_; }
  void set_limit_bytes(std::size_t bytes) noexcept { limit_ = bytes; }
  /// What counts towards the limit, heaps within included.
  std::size_t taken_bytes() noexcept { return taken_.load(Order::relaxed); }

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

  /// What is leased counts as large blocks, from which a backbone above takes its slabs.
  void tell(Usage& u) noexcept {
    Held held(lock_);
    u.mapped += leased_;
    u.live += leased_;
    u.large += leased_;
    u.large_count += blocks_;
    u.meta += meta_;
    u.limit = limit_bytes() == kNoLimit ? 0 : limit_bytes();
    u.refused += refused_.load(Order::relaxed);
  }

 private:
  Index& index() noexcept { return store_->page_index(); }

  /// Spans side by side.
  struct Run {
    std::uint32_t head = 0, granules = 0, spans = 0;
    bool add(std::uint32_t at, std::uint32_t length) noexcept {
      if (!granules || (at + length != head && head + granules != at)) return false;
      if (at < head) head = at;
      granules += length;
      ++spans;
      return true;
    }
  };
  void give_back(const Run& run) noexcept {
    if (!run.granules) return;
    Span* s = index().set_span(run.head, run.granules, SpanState::large);
    store_->join_large(run.spans);
    typename Store::Thread t;
    store_->release(t, {index().base_of(s), Index::bytes_of(s), kNoClass});
  }
  /// Bits are set for released blocks only.
  void clear_slab(Span* s) noexcept {
    if (s->free > s->capacity - s->bump) std::memset(index().bits_of(s), 0, (s->bump + 63) / 64 * 8);
    index().forget_class(s);
  }

  /// Counts `bytes` here and in every lease around; all or nothing.
  bool take(std::size_t bytes) noexcept {
    if (!count(bytes)) return refused_.fetch_add(1, Order::relaxed), false;
    if (!parent_ || parent_->take(bytes)) return true;
    taken_.fetch_sub(bytes, Order::relaxed);
    return false;
  }
  void give(std::size_t bytes) noexcept {
    for (SpanLease* l = this; l; l = l->parent_) l->taken_.fetch_sub(bytes, Order::relaxed);
  }
  bool count(std::size_t bytes) noexcept {
    std::size_t taken = taken_.load(Order::relaxed);
    do {
      const std::size_t limit = limit_;
      if (taken > limit || bytes > limit - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, Order::relaxed));
    return true;
  }

  // The list goes by granule numbers, counted from 1.
  void enlist(Span* s) noexcept {
    const std::uint32_t number = s->head + 1;
    s->owner = owner_;
    s->owner_prev = 0;
    s->owner_next = first_;
    if (first_) index().spans()[first_ - 1].owner_prev = number;
    first_ = number;
  }
  void delist(Span* s) noexcept {
    if (s->owner_prev) index().spans()[s->owner_prev - 1].owner_next = s->owner_next;
    else first_ = s->owner_next;
    if (s->owner_next) index().spans()[s->owner_next - 1].owner_prev = s->owner_prev;
    s->owner = s->owner_next = s->owner_prev = 0;
  }

  Store* store_ = nullptr;
  SpanLease* parent_ = nullptr;
  FutexLock lock_;
  std::uint32_t owner_ = 0, first_ = 0;
  std::size_t leased_ = 0, blocks_ = 0, meta_ = 0;
  Atomic<std::size_t> taken_{0}, refused_{0};
  Preset<std::size_t{kNoLimit}> limit_;
};

}  // namespace mortise
