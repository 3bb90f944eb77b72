// A heap for each memory node: what a thread is given lies on the node it runs on, and no span serves two nodes.
//
//                 one node                        several nodes
//   malloc(n)  ── [ below ]                       ── the node of this CPU ── that node's heap: its magazines, slabs and free spans
//   free(p)    ── [ below ]                       ── the window that p lies in ── the heap it is from, whoever frees it
//
//   addresses  ┌ below ┐┌ node 0 ┐┌ node 1 ┐      windows in a row: a division says whose a block is
//
// Each heap is whole: caches, slabs, free spans, tables. Its pages are touched first by threads of its node, and that is where the kernel
// then takes them from; what other nodes free waits in magazines of the freeing core in that heap, and goes home in batches; a free span,
// purged or not, never leaves. Even bookkeeping lies with those who use it.
//
// A program begins on what is below. It stays there on a machine of one node, where this layer costs a load on a miss. `split` makes the
// heaps: then what is below is closed, so that every call is a miss here and is served by the heap that it belongs to, from a magazine
// like any hit. A thread that moves to another node between two instructions gets a block of the node it was on.
//
// A limit is one for all. Each heap has a part of it, and one that is refused memory borrows what others have left of theirs.
//
// Progress: as below; a miss here may be a hit there. Source: as mimalloc and tcmalloc do it on such machines, by arenas of nodes.
// Placement: on top; what is below keeps no state for threads, has an index of its pages and a source that lays its window where it is
// told (MmapHeap).
#pragma once

#include <cstring>
#include <new>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/nodes.hpp"
#include "mortise/os/window.hpp"
#include "mortise/policy/distribution.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

struct PerNode {
  static constexpr const char* kName = "PerNode";
  static constexpr const char* kWhat = "on machines with several memory nodes a heap for each: spans are never shared across nodes";
  static constexpr const char* kNeeds = "a whole stack without thread state over PageIndex and MmapHeap";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("nodes", os::kNodesMax); }

  template <Heap Below> requires Hits<Below> && Indexed<Below> && GivesMeta<Below> && Starts<Below> && Closes<Below> &&
                                 std::is_empty_v<typename Below::Thread>
  class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    constexpr Over() noexcept = default;
    ~Over() requires std::is_trivially_destructible_v<Below> = default;
    ~Over() {
      for (Below* heap : heaps_)
        if (heap) heap->~Below();
    }

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept { return this->below.allocate_hit(t, r); }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept { return heap_of(b.ptr).release_hit(t, b); }
    /// Whether `release_hit` is worth a try inline: no where a block is not below.
    MORTISE_HOT bool may_hit(const std::byte* p) noexcept { return this->below.holds(p); }
    /// The heap whose blocks those are.
    MORTISE_HOT Below& nearest() noexcept { return this->below; }

    Block allocate(Thread& t, Request r) noexcept {
      if (!count_) [[likely]] return this->below.allocate(t, r);
      return allocate_near(t, r);
    }
    void release(Thread& t, Block b) noexcept { heap_of(b.ptr).release(t, b); }
    /// The hit of a request that `allocate_hit` did not serve, and of a block that `may_hit` said no to: in a node's heap.
    MORTISE_HOT Block allocate_hit_away(Thread& t, Request r) noexcept { return count_ ? here().allocate_hit(t, r) : Block{}; }
    MORTISE_HOT bool release_hit_away(Thread& t, std::byte* p) noexcept {
      const std::size_t place = place_of(p);
      if (place >= count_) return false;
      Below& heap = *heaps_[place];
      return heap.holds(p) && heap.release_hit(t, heap.block_of(p));
    }

    bool holds(const std::byte* p) noexcept { return heap_of(p).holds(p); }
    MORTISE_HOT Block block_of(std::byte* p) noexcept {
      if (this->below.holds(p)) [[likely]] return this->below.block_of(p);
      return heap_of(p).block_of(p);
    }
    Block measure(Block b) noexcept { return heap_of(b.ptr).measure(b); }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return heap_of(b.ptr).resize_in_place(t, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return heap_of(b.ptr).resize_by_moving(t, b, n);
    }

    // What guards of the stack below are asked of a block, those of the block's heap are.
    MORTISE_HOT void check_size(std::byte* p, std::size_t n, std::size_t align) noexcept requires ChecksSizes<Below> {
      heap_of(p).check_size(p, n, align);
    }
    MORTISE_HOT bool has_size(Block b, std::size_t n) noexcept requires KnowsSizes<Below> { return heap_of(b.ptr).has_size(b, n); }
    const void* freed_at(const std::byte* p) noexcept requires Remembers<Below> { return heap_of(p).freed_at(p); }
    bool explain(const std::byte* p, Crime& c) noexcept requires Explains<Below> { return heap_of(p).explain(p, c); }
    void check_waiting(Thread& t) noexcept requires ChecksWaiting<Below> { each([&](Below& h) { h.check_waiting(t); }); }
    std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> { return sum([&](Below& h) { return h.check_all(t); }); }

    // What one of several heaps could not answer for is not offered.
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
    void page_index() = delete;
    void block_marks() = delete;
    void charge(std::size_t, bool) = delete;
    void charge_beside(std::size_t) = delete;

    /// From now on a heap for each node; `facts` as at start. What was given out before stays where it is. False, and nothing is changed,
    /// with one node, where memory is refused or the heaps' windows are not to be had. To be called before a second thread runs, once.
    bool split(const os::NodeMap& nodes, const os::Facts& facts) noexcept {
      if (count_ || nodes.count < 2) return false;
      row_ = this->below.page_index().granule_at(0) + kStride;
      os::Facts of_node = facts;
      of_node.rseq = os::indexed_by_cpu(facts.rseq);
      of_node.numbers_threads = false;  // below does, for all
      std::memcpy(node_of_cpu_, nodes.of_cpu, sizeof node_of_cpu_);
      for (unsigned i = 0; i < nodes.count; ++i) {
        of_node.window = row_ + i * kStride;
        of_node.home = &(homes_[i] = {node_of_cpu_, static_cast<std::uint8_t>(i)});
        heaps_[i] = os::is_free_window(of_node.window) ? make_heap() : nullptr;
        if (!heaps_[i] || !heaps_[i]->start(of_node) || heaps_[i]->page_index().granule_at(0) != of_node.window) return false;
      }
      area_ = of_node.rseq;
      count_ = nodes.count;
      this->below.close();
      return true;
    }
    /// Heaps of nodes; 0 before `split`.
    unsigned node_count() const noexcept { return count_; }
    /// The node whose heap `p` is from, or node_count() when it is from before.
    unsigned node_of(const std::byte* p) const noexcept { return is_away(p) ? place_of(p) : count_; }

    void attach(Thread& t) noexcept { attach_below(this->below, t); }
    /// Those below last: it hands out the indices of threads.
    void detach(Thread& t) noexcept {
      for (unsigned i = count_; i-- > 0;) detach_below(*heaps_[i], t);
      detach_below(this->below, t);
    }
    std::size_t trim(Thread& t) noexcept requires Trims<Below> { return sum([&](Below& h) { return h.trim(t); }); }
    std::size_t purge_idle() noexcept requires Purges<Below> { return sum([](Below& h) { return h.purge_idle(); }); }
    std::size_t idle_bytes() noexcept requires Purges<Below> { return sum([](Below& h) { return h.idle_bytes(); }); }
    void set_purge_ms(std::int64_t ms) noexcept requires Purges<Below> { each([&](Below& h) { h.set_purge_ms(ms); }); }
    /// A heap of a node keeps less for later above its share, until `is_pressed` sees that it may have more.
    void set_soft_limit_bytes(std::size_t bytes) noexcept requires Yields<Below> {
      soft_bytes_ = bytes;
      each([&](Below& h) { h.set_soft_limit_bytes(count_ ? bytes / count_ : bytes); });
    }
    /// What was given out before `split` has what it takes, the nodes' heaps an equal part each of the rest, to begin with.
    void set_limit_bytes(std::size_t bytes) noexcept requires Limits<Below> {
      Held held(lock_);
      limit_bytes_ = bytes;
      if (!count_) return this->below.set_limit_bytes(bytes);
      const std::size_t taken = this->below.taken_bytes(), before = taken < bytes ? taken : bytes;
      this->below.set_limit_bytes(before);
      for (unsigned i = 0; i < count_; ++i) heaps_[i]->set_limit_bytes((bytes - before) / count_);
    }
    std::size_t limit_bytes() noexcept requires Limits<Below> { return count_ ? limit_bytes_ : this->below.limit_bytes(); }
    std::size_t taken_bytes() noexcept requires Limits<Below> { return sum([](Below& h) { return h.taken_bytes(); }); }
    /// About the caller's node, which may have what the others do not take. Where none is beyond its share, all are not beyond the whole.
    MORTISE_HOT bool is_pressed() noexcept requires Yields<Below> && Limits<Below> {
      return count_ && soft_bytes_ ? is_node_pressed() : this->below.is_pressed();
    }
    void set_huge_pages(HugePages pages) noexcept requires AdvisesHuge<Below> { each([&](Below& h) { h.set_huge_pages(pages); }); }
    void close() noexcept { each([](Below& h) { h.close(); }); }

    void lock_all() noexcept {
      hold(lock_);
      each([](Below& h) { h.lock_all(); });
    }
    void unlock_all() noexcept {
      for (unsigned i = count_; i-- > 0;) heaps_[i]->unlock_all();
      this->below.unlock_all();
      let_go(lock_);
    }
    void reset_after_fork() noexcept {
      lock_.reset();
      each([](Below& h) { h.reset_after_fork(); });
    }
    /// The window that is told of reaches from the first to the last, with the tables in between.
    void tell(Usage& u) noexcept requires Tells<Below> {
      this->below.tell(u);
      std::byte* const first = u.window;
      for (unsigned i = 0; i < count_; ++i) heaps_[i]->tell(u);
      u.window_bytes += static_cast<std::size_t>(u.window - first);
      u.window = first;
      u.soft_limit = soft_bytes_;
      if constexpr (Limits<Below>) u.limit = count_ ? limit_bytes_ : u.limit;
    }
    void audit() noexcept requires Audits<Below> { each([](Below& h) { h.audit(); }); }
    template <class Each> void each_live(Each&& see) noexcept requires Walks<Below> { each([&](Below& h) { h.each_live(see); }); }

   private:
    [[gnu::noinline]] bool is_node_pressed() noexcept {
      Below& own = here();
      const std::size_t taken = own.taken_bytes(), share = soft_bytes_ / count_;
      if (taken <= share) return false;
      const std::size_t others = taken_bytes() - taken;
      own.set_soft_limit_bytes(others < soft_bytes_ - share ? soft_bytes_ - others : share);
      return own.is_pressed();
    }
    /// Of a window, its tables and some room: an address divided by it is a heap's place in the row.
    static constexpr std::size_t kStride = IndexOf<Below>::kReachBytes + IndexOf<Below>::kReachBytes / 2;

    /// Zeros are a heap, and stay untouched; what is to be destroyed is to be made as well.
    Below* make_heap() noexcept {
      std::byte* const at = this->below.meta(sizeof(Below));
      if constexpr (std::is_trivially_destructible_v<Below>) return reinterpret_cast<Below*>(at);
      else return at ? ::new (static_cast<void*>(at)) Below : nullptr;
    }
    [[gnu::noinline]] Block allocate_near(Thread& t, Request r) noexcept {
      // One index a thread for all heaps, where it is not the core's. A thread that has none gets it from below.
      if (!area_.is_kernels && !os::rseq_index(area_)) attach_below(this->below, t);
      Below& heap = here();
      const Block b = heap.allocate(t, r);
      if constexpr (Limits<Below>)
        if (!b && borrow(heap, r.size)) return heap.allocate(t, r);
      return b;
    }
    /// Half of what each other heap may still take goes over to `to`, or all where that is less than wanted; false when there is nothing.
    MORTISE_COLD bool borrow(Below& to, std::size_t bytes) noexcept {
      constexpr std::size_t kSpan = 1_MiB;  // a slab of the largest blocks
      Held held(lock_);
      if (!limit_bytes_ || bytes > limit_bytes_) return false;
      std::size_t got = 0;
      each([&](Below& from) {
        const std::size_t room = &from == &to ? 0 : room_below(from), want = bytes + kSpan;
        const std::size_t part = room / 2 > want ? room / 2 : room < want ? room : want;
        if (!part) return;
        from.set_limit_bytes(from.limit_bytes() - part);
        if (from.taken_bytes() <= from.limit_bytes()) got += part;
        else from.set_limit_bytes(from.limit_bytes() + part);  // it has taken some meanwhile
      });
      to.set_limit_bytes(to.limit_bytes() + got);
      return got;
    }
    MORTISE_HOT Below& here() noexcept {
      const std::uint32_t cpu = by_core::number_of({.area = area_});
      return *heaps_[cpu < os::kCpusMax ? node_of_cpu_[cpu] : 0];
    }
    /// In the row; far beyond its end for what lies before it.
    MORTISE_HOT std::size_t place_of(const std::byte* p) const noexcept { return static_cast<std::size_t>(p - row_) / kStride; }
    bool is_away(const std::byte* p) const noexcept { return place_of(p) < count_; }
    MORTISE_HOT Below& heap_of(const std::byte* p) noexcept {
      if (this->below.holds(p) || !is_away(p)) [[likely]] return this->below;
      return *heaps_[place_of(p)];
    }
    template <class Do> void each(Do&& act) noexcept {
      act(this->below);
      for (unsigned i = 0; i < count_; ++i) act(*heaps_[i]);
    }
    template <class Ask> std::size_t sum(Ask&& ask) noexcept {
      std::size_t total = 0;
      each([&](Below& h) { total += ask(h); });
      return total;
    }

    unsigned count_ = 0;
    std::byte* row_ = nullptr;
    Below* heaps_[os::kNodesMax] = {};
    os::RseqArea area_;
    std::size_t soft_bytes_ = 0, limit_bytes_ = 0;
    FutexLock lock_;  ///< of the limits
    std::uint8_t node_of_cpu_[os::kCpusMax] = {};
    os::HomeNode homes_[os::kNodesMax] = {};
  };
};

}  // namespace mortise
