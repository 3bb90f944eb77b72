// A pool for objects of several sizes: what is allocated in turn lies side by side, though no segment has one size for it.
//
//   pool of mixed sizes ─► BoundaryTag ─► extents of the range that all pools share
//   ┌─────┬────────┬─────┬──────────────────┬─────┬────────┬─────┬──────────────────┬──────────
//   │ tag │ record │ tag │ its part         │ tag │ record │ tag │ its part         │ free ...
//   └─────┴────────┴─────┴──────────────────┴─────┴────────┴─────┴──────────────────┴──────────
//
// 8 bytes an object, chunks of 32 bytes and more. All threads share it. Its segments belong to one head that no thread owns, so
// that every release takes the way of another thread's. Progress: blocking. Source: variable-size groups of [Wang10].
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/route/pool_range.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// What pools share: the range, and the lock that guards it.
template <std::size_t kSegmentBytes> struct PoolGround {
  FutexLock lock;
  PoolRange<kSegmentBytes> range;
  MetaArena meta;
};

/// A source: runs of segments for one head, which has none but these.
template <std::size_t kSegmentBytes> class PoolExtents {
 public:
  struct Thread {};
  using Classes = NoClasses;
  using Ground = PoolGround<kSegmentBytes>;
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr std::size_t kGranule = 256_KiB, kReach = PoolRange<kSegmentBytes>::kReach;

  void serve(Ground& ground, PoolHead& head) noexcept { ground_ = &ground, head_ = &head; }
  std::byte* origin() const noexcept { return ground_->range.origin(); }

  /// Of at most one chunk of the range.
  Block allocate(Thread&, Request r) noexcept {
    const std::size_t bytes = round_up(r.size, kGranule);
    Held held(ground_->lock);
    std::byte* const p = bytes <= ground_->range.kChunk ? ground_->range.take_run(*head_, bytes / kSegmentBytes) : nullptr;
    return p ? Block{p, bytes} : Block{};
  }
  void release(Thread&, Block b) noexcept {
    Held held(ground_->lock);
    for (std::size_t at = 0; at < b.size; at += kSegmentBytes) ground_->range.give_back(ground_->range.segment_of(b.ptr + at));
  }
  bool purge_pages(std::byte* at, std::size_t bytes) noexcept { return os::purge(at, bytes); }
  std::byte* meta(std::size_t bytes) noexcept {
    Held held(ground_->lock);
    return ground_->meta.take(bytes);
  }
  std::byte* side(std::size_t) noexcept { return nullptr; }  // no tables beside the heap are needed
  bool back_side(std::byte*, std::size_t) noexcept { return false; }

 private:
  Ground* ground_ = nullptr;
  PoolHead* head_ = nullptr;
};

/// Thread-safe. A signal handler that interrupts its own thread inside must not come here.
template <std::size_t kSegmentBytes> class MixedPool {
 public:
  using Ground = PoolGround<kSegmentBytes>;

  bool start(Ground& ground, Pool& pool, std::size_t page_bytes) noexcept {
    home_.pool = &pool;
    home_.mixed = this;
    home_.owner.store(PoolHead::nobody(), Order::relaxed);
    heap_.below.serve(ground, home_);
    os::Facts facts{};
    facts.page_bytes = page_bytes;
    return heap_.start(facts);
  }
  /// An object; null when the system refuses memory. O(log of the free chunks).
  std::byte* take(std::size_t bytes) noexcept {
    drain();
    return heap_.allocate(nothing_, {.size = bytes}).ptr;
  }
  void put(std::byte* p) noexcept {
    drain();
    heap_.release(nothing_, {p, 0});
  }
  std::size_t bytes_of(std::byte* p) noexcept { return heap_.measure({p, 0}).size; }
  std::size_t trim() noexcept {
    drain();
    return heap_.trim(nothing_);
  }
  void tell(Usage& u) noexcept { heap_.tell(u); }
  void audit() noexcept { heap_.audit(); }
  void lock_all() noexcept { heap_.lock_all(); }
  void unlock_all() noexcept { heap_.unlock_all(); }
  void reset_after_fork() noexcept { heap_.reset_after_fork(); }

  MixedPool* next = nullptr;         ///< the owner's list of all
  MixedPool* held_before = nullptr;  ///< and of those that it holds

 private:
  /// What signal handlers have released meanwhile.
  void drain() noexcept {
    for (std::byte *p = home_.take_remote(), *after; p; p = after) {
      after = link_of(p);
      heap_.release(nothing_, {p, 0});
    }
  }

  typename BoundaryTag<fit::BestFit>::template Over<PoolExtents<kSegmentBytes>> heap_;
  typename PoolExtents<kSegmentBytes>::Thread nothing_;
  PoolHead home_ = {};
};

}  // namespace mortise
