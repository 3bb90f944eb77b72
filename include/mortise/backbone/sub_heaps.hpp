// One heap a thread, or a core: each allocates from its own, and a block always goes back to the heap it came from.
//
//   thread A ──► sub-heap A: ┌ quick bins ┬ boundary tags over slot A ┐ ◄── its own frees, under its own lock
//   thread B ──► sub-heap B: └────────────┴───────────────────────────┘ ◄── `returned`: frees from elsewhere, without a lock
//
// 1. allocate: the thread's sub-heap, under its lock, which only stealers ever contend for: what others returned is taken
//    back first; then a bin of blocks of exactly this size; then the boundary tags. 2. A sub-heap that would have to grow
//    looks whether another one has plenty idle, and borrows the block there: no heap grows while others lie unused.
// 3. release: home - into a bin or the tags; elsewhere - one push on the owner's `returned` list.
//
// Every block owns whole cache lines: sizes are rounded so that blocks of different threads never share one, whoever
// allocated them, and large arrays start on one. Threads beyond the number of slots share sub-heaps by turn.
// Progress: blocking (a lock a sub-heap); release to another sub-heap is lock-free. Source: [PMthreads18]; boundary tags
// as in [Lea00]. Placement: directly above SharedHeap. Above it what needs no page index.
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/syscall.hpp"
#include "mortise/policy/distribution.hpp"
#include "mortise/source/shared_heap.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/unsynchronised.hpp"

namespace mortise {

/// `Fit`: which of the free chunks that fit is taken.
/// `Distribution`: whose sub-heap a thread allocates from; by core, it is asked at every call.
template <fit::ChunkFit Fit = fit::BestFit, DistributionRule Distribution = by_thread_in_turn> struct SubHeaps {
  static constexpr const char* kName = "SubHeaps";
  static constexpr const char* kWhat = "a heap a thread; blocks go back where they came from; idle memory is lent";
  static constexpr const char* kNeeds = "a source with a slot of addresses for each sub-heap directly below (SharedHeap)";
  static constexpr std::size_t kLine = 64;
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Fit", Fit::kName).policy("Distribution", Distribution::kName).number("line_bytes", kLine);
  }

  template <Slotted Below> class Over : public Passthrough<Below> {
   public:
    struct Thread : Below::Thread {
      std::size_t home = 0;    ///< its sub-heap
      std::size_t lender = 0;  ///< the sub-heap that lent last
    };
    static constexpr Progress kProgress = Progress::of(Guarantee::blocking);

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      area_ = facts.rseq;
      for (unsigned i = 0; i < Below::kSlotCount; ++i) {
        heaps_[i].tags.below.bind(&this->below, i);
        if (!heaps_[i].tags.start(facts)) return false;
      }
      return true;
    }

    void attach(Thread& t) noexcept {
      const std::uint32_t turn = threads_met_.fetch_add(1, Order::relaxed);
      const auto thread = static_cast<std::uint32_t>(os::syscall(SYS_gettid));
      t.home = pool_of<Distribution>({area_, turn, thread}, Below::kSlotCount);
      note_home(t.home);
    }
    void detach(Thread&) noexcept {}

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Below::kSlotBytes) return {};
      r = whole_lines(r);
      SubHeap& home = home_of(t);
      home.lock.lock();
      const Block b = take(t, home, r);
      home.lock.unlock();
      return b ? b : from_elsewhere(t, r);
    }

    void release(Thread& t, Block b) noexcept {
      SubHeap& owner = owner_of(b.ptr);
      if (&owner != &home_of(t)) return give_back(owner, b.ptr);
      Held held(owner.lock);
      keep(t, owner, b.ptr);
    }

    bool holds(const std::byte* p) const noexcept {
      return static_cast<std::size_t>(p - this->below.origin()) < Below::kReach && owner_of(p).tags.holds(p);
    }
    Block block_of(std::byte* p) noexcept { return {p, 0}; }
    Block measure(Block b) noexcept { return owner_of(b.ptr).tags.measure(b); }

    Block resize_in_place(Thread& t, Block b, std::size_t bytes) noexcept {
      if (bytes > Below::kSlotBytes) return {};
      SubHeap& owner = owner_of(b.ptr);
      Held held(owner.lock);
      const Block old = owner.tags.measure(b);
      const Block resized = owner.tags.resize_in_place(t, old, whole_lines({.size = bytes}).size);
      if (resized) owner.count(old.size, resized.size);
      return resized;
    }

    std::size_t trim(Thread& t) noexcept {
      std::size_t given = 0;
      for (SubHeap& h : heaps_) {
        Held held(h.lock);
        empty_bins(t, h);
        given += h.tags.trim(t);
      }
      return given;
    }

    void lock_all() noexcept {
      for (SubHeap& h : heaps_) hold(h.lock);
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      for (unsigned i = Below::kSlotCount; i-- > 0;) let_go(heaps_[i].lock);
    }
    void reset_after_fork() noexcept {
      for (SubHeap& h : heaps_) h.lock.reset();
      reset_below(this->below);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      for (SubHeap& h : heaps_) {
        Held held(h.lock);
        Usage own;
        h.tags.tell(own);
        std::size_t waiting = h.binned;
        for (Link* link = h.returned.load(Order::acquire); link; link = link->next)   // pairs with give_back; who takes them holds the lock
          waiting += h.tags.chunk_bytes_of(reinterpret_cast<std::byte*>(link));
        u.live += own.live - waiting;
        u.cached += own.cached + waiting;
      }
    }
    void audit() noexcept {
      for (SubHeap& h : heaps_) {
        Held held(h.lock);
        h.tags.audit();
      }
    }

   private:
    /// A view of one slot, as the source of one sub-heap's boundary tags.
    class SlotSource {
     public:
      using Thread = typename Below::Thread;
      using Classes = NoClasses;
      static constexpr Progress kProgress = Below::kProgress;
      static constexpr std::size_t kGranule = Below::kGranule;
      static constexpr std::size_t kReach = Below::kSlotBytes;
      void bind(Below* below, unsigned slot) noexcept { below_ = below, slot_ = slot; }
      std::byte* origin() const noexcept { return below_->slot_origin(slot_); }
      Block allocate(Thread& t, Request r) noexcept {
        const Block b = may_grow ? below_->allocate_in(t, slot_, r) : Block{};
        grown += b.size;
        return b;
      }
      void release(Thread& t, Block b) noexcept { below_->release(t, b); }
      std::byte* meta(std::size_t bytes) noexcept { return below_->meta(bytes); }
      bool purge_pages(std::byte* at, std::size_t bytes) noexcept { return below_->purge_pages(at, bytes); }
      std::byte* side(std::size_t) noexcept { return nullptr; }
      bool back_side(std::byte*, std::size_t) noexcept { return false; }
      bool may_grow = false;
      std::size_t grown = 0;

     private:
      Below* below_ = nullptr;
      unsigned slot_ = 0;
    };

    struct Link {
      Link* next;
    };
    static constexpr std::size_t kBinBytesMax = 1024;
    static constexpr unsigned kBins = kBinBytesMax / kLine + 1;
    static constexpr std::size_t kBinnedMax = 256_KiB;   ///< kept in bins by one sub-heap; more goes back to its tags
    static constexpr std::size_t kLendMin = 1_MiB;       ///< idle bytes from which a sub-heap lends

    struct alignas(128) SubHeap {
      FutexLock lock;
      std::size_t binned = 0;  ///< bytes, tags included
      std::size_t live = 0;   ///< bytes of chunks that the tags count as in use, bins included
      Atomic<std::size_t> idle{0};   ///< what the tags hold beside; written under the lock, others look at it without
      Link* bins[kBins]{};
      typename BoundaryTag<Fit, Unsynchronised, purge::AtOnce, kLine>::template Over<SlotSource> tags;
      alignas(64) Atomic<Link*> returned{nullptr};   ///< pushed to by any thread, emptied by whoever holds the lock

      /// A block of `before` bytes has `after` now; no block is one of no bytes. Its tag counts with it.
      void count(std::size_t before, std::size_t after) noexcept {
        live -= before ? before + sizeof(std::size_t) : 0;
        live += after ? after + sizeof(std::size_t) : 0;
        idle.store(tags.below.grown - live, Order::relaxed);
      }
    };

    /// A size that, with its tag, fills whole lines; blocks then start on one.
    static Request whole_lines(Request r) noexcept {
      r.size = round_up((r.size ? r.size : 1) + sizeof(std::size_t), kLine) - sizeof(std::size_t);
      if (r.align <= kLine) r.align = kMinAlign;   // what every block has without being asked
      return r;
    }
    static unsigned bin_of(std::size_t bytes) noexcept { return static_cast<unsigned>((bytes + sizeof(std::size_t)) / kLine); }
    SubHeap& owner_of(const std::byte* p) const noexcept {
      return const_cast<SubHeap&>(heaps_[static_cast<std::size_t>(p - this->below.origin()) / Below::kSlotBytes]);
    }

    SubHeap& home_of(Thread& t) noexcept {
      if constexpr (Distribution::kMayChange) {
        const std::size_t home = pool_of<Distribution>({area_}, Below::kSlotCount);
        if (home != t.home) note_home(t.home = home);
      }
      return heaps_[t.home];
    }
    /// Keeps the bound of the search for somebody who lends.
    void note_home(std::size_t home) noexcept {
      std::size_t used = homes_used_.load(Order::relaxed);
      while (used <= home && !homes_used_.compare_exchange_weak(used, home + 1, Order::relaxed)) {
      }
    }

    Block take(Thread& t, SubHeap& h, Request r) noexcept {
      take_back(t, h);
      const unsigned bin = bin_of(r.size);
      if (bin < kBins && r.align <= kLine && h.bins[bin]) {
        Link* const link = h.bins[bin];
        h.bins[bin] = link->next;
        const Block b = h.tags.measure({reinterpret_cast<std::byte*>(link), 0});
        h.binned -= h.tags.chunk_bytes_of(b.ptr);
        if (r.zeroed) std::memset(b.ptr, 0, r.size);
        return b;
      }
      return from_tags(t, h, r, false);
    }
    Block from_tags(Thread& t, SubHeap& h, Request r, bool may_grow) noexcept {
      h.tags.below.may_grow = may_grow;
      const Block b = h.tags.allocate(t, r);
      h.count(0, b.size);
      return b;
    }

    void keep(Thread& t, SubHeap& h, std::byte* p) noexcept {
      const Block b = h.tags.measure({p, 0});
      const unsigned bin = bin_of(b.size);
      if (bin < kBins && h.binned < kBinnedMax) {
        auto* const link = reinterpret_cast<Link*>(p);
        link->next = h.bins[bin];
        h.bins[bin] = link;
        h.binned += h.tags.chunk_bytes_of(p);
        return;
      }
      h.count(b.size, 0);
      h.tags.release(t, b);
    }

    void give_back(SubHeap& owner, std::byte* p) noexcept {
      auto* const link = reinterpret_cast<Link*>(p);
      link->next = owner.returned.load(Order::relaxed);
      while (!owner.returned.compare_exchange_weak(link->next, link, Order::release, Order::relaxed)) {   // pairs with take_back
      }
    }
    void take_back(Thread& t, SubHeap& h) noexcept {
      if (!h.returned.load(Order::relaxed)) [[likely]] return;
      for (Link* link = h.returned.exchange(nullptr, Order::acquire); link;) {
        Link* const next = link->next;
        keep(t, h, reinterpret_cast<std::byte*>(link));
        link = next;
      }
    }
    void empty_bins(Thread& t, SubHeap& h) noexcept {
      take_back(t, h);
      for (Link*& bin : h.bins)
        while (Link* const link = bin) {
          bin = link->next;
          const Block b = h.tags.measure({reinterpret_cast<std::byte*>(link), 0});
          h.count(b.size, 0);
          h.tags.release(t, b);
        }
      h.binned = 0;
    }

    /// The home sub-heap has nothing without growing: borrow, or grow after all. A look without locks says whom to ask:
    /// who has much idle, or was given blocks back that it has not looked at, since their own thread may have ended.
    Block from_elsewhere(Thread& t, Request r) noexcept {
      const std::size_t count = homes_used_.load(Order::relaxed);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t index = (t.lender + i) % count;
        SubHeap& other = heaps_[index];
        if (index == t.home || !may_lend(other)) continue;
        if (const Block b = borrow(t, other, r)) return t.lender = index, b;
      }
      SubHeap& home = heaps_[t.home];
      Held held(home.lock);
      return from_tags(t, home, r, true);
    }
    static bool may_lend(const SubHeap& h) noexcept {
      return h.idle.load(Order::relaxed) >= kLendMin || h.returned.load(Order::relaxed);
    }
    Block borrow(Thread& t, SubHeap& other, Request r) noexcept {
      Held held(other.lock);
      take_back(t, other);
      return other.idle.load(Order::relaxed) < kLendMin ? Block{} : from_tags(t, other, r, false);
    }

    SubHeap heaps_[Below::kSlotCount]{};
    os::RseqArea area_;
    Atomic<std::uint32_t> threads_met_{0};
    Atomic<std::size_t> homes_used_{0};   ///< sub-heaps from here on were nobody's home yet
  };
};

}  // namespace mortise
