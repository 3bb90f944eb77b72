// A pool of equal blocks for any number of threads: what typed pools, byte pools and the C interface are made of.
//
//   acquire ── pop from this core's magazine ── done                                no lock, no exchange
//                │ empty: acquire_slow
//                ├─ a chain from the shared stacks: one for us, the others kept       one exchange for 32
//                ├─ a bare slot, a slot never used (up to the maximum)
//                └─ shut all magazines, collect what lies in them, try again          one caller at a time
//   release ── push to this core's magazine ── done
//                │ full, or shut: release_slow
//                └─ half the magazine and the block as one chain to the shared stacks; ring for waiters
//
// While somebody waits, all magazines are shut: every release then comes by the shared part and rings. So waiting costs
// those who do not wait nothing, and no wake-up is lost.
//
// Progress: hits wait-free but for restarts by preemption (cores), wait-free (threads, cpus); misses lock-free; the
// search of other magazines before a failure, waiting and trimming take the pool's lock: blocking.
// Fork: the child goes on with the pool as it was at that moment. Locks and waiters start afresh; what other
// threads held or carried stays in use. Source: [BonwickAdams01], [Desnoyers15], [Treiber86].
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>

#include "mortise/os/facts.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/pool/doorbell.hpp"
#include "mortise/pool/magazines.hpp"
#include "mortise/pool/options.hpp"
#include "mortise/pool/slots.hpp"
#include "mortise/pool/stay.hpp"
#include "mortise/pool/transfer.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise::pools {

/// A block, and whether the slot is bare: no object has been made in it since it was last destroyed.
struct Taken {
  std::byte* block = nullptr;
  bool bare = false;
};

class BlockPool {
 public:
  static constexpr std::size_t kAlignMax = 65536;  ///< where slots begin, whatever their size
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() {
    if (region_) os::unmap(region_, region_bytes_);
  }

  /// Reserves room for `options.maximum` blocks of `bytes` at `align`. `keeps`: idle blocks hold live objects, so that
  /// blocks that hold none are kept apart. False when the system refuses, or when the sizes make no sense.
  bool start(const pool_options& options, std::size_t bytes, std::size_t align, bool keeps) noexcept;

  MORTISE_HOT std::byte* acquire_hit() const noexcept { return magazines_.pop_hit(); }
  MORTISE_HOT bool release_hit(std::byte* block) const noexcept { return magazines_.push_hit(block); }

  [[gnu::cold]] Taken acquire_slow() noexcept;
  [[gnu::cold]] void release_slow(std::byte* block) noexcept;
  /// Waits up to `timeout_ns` for a block; not at all when that is zero or has gone by.
  [[gnu::cold]] Taken acquire_wait(std::int64_t timeout_ns) noexcept;
  /// Takes a block back whose object is gone.
  void release_bare(std::byte* block) noexcept;
  /// A slot without an object, or null when `maximum` exist. Lock-free.
  std::byte* take_bare() noexcept;
  /// Puts such a slot among the idle ones: with an object in it where blocks are kept, else its memory is touched.
  void stock(std::byte* block) noexcept;

  /// Gives pages of idle blocks back, but for the first `keep` idle blocks; `destroy(block)` ends the object in each
  /// block that is given up, where blocks are kept with objects. Returns the bytes of the pages. Blocking; callers that
  /// find nothing wait for it.
  template <class Destroy>
  std::size_t trim(std::uint32_t keep, Destroy&& destroy) noexcept;
  /// Takes every idle block that holds an object out of the pool and passes it to `destroy`. For the pool's end.
  template <class Destroy>
  void drain(Destroy&& destroy) noexcept;

  pool_statistics statistics() noexcept;
  std::uint32_t capacity_slack() const noexcept { return magazines_.slack(); }
  const Slots& slots() const noexcept { return slots_; }
  explicit operator bool() const noexcept { return region_ != nullptr; }
  std::uint32_t created() const noexcept { return carved_.load(Order::acquire); }
  /// Slots that are not bare: of those in use or idle, how many there are.
  std::uint32_t existing() const noexcept {
    const std::uint32_t carved = created(), bare = bare_count_.load(Order::relaxed);
    return carved > bare ? carved - bare : 0;
  }
  pool_front front() const noexcept { return magazines_.front(); }

 private:
  /// What the child of a fork must not inherit: the kernel fills this page with zeros there.
  struct Control {
    Atomic<std::uint32_t> alive{0};  ///< the pool's life: 1, in a child 2 and so on; 0 before its first call
    FutexLock lock;
    Doorbell bell;
  };
  static constexpr std::size_t kControlBytes = 65536;  // a page, however large pages are
  static constexpr std::uint32_t kIdleMark = UINT32_MAX, kBareMark = UINT32_MAX - 1;

  Taken take_shared() noexcept;
  Taken sweep() noexcept;
  unsigned carve(std::byte** blocks, unsigned n) noexcept;
  void give_chain(std::byte* const* blocks, unsigned n) noexcept;
  void keep(std::byte* const* blocks, unsigned n) noexcept;
  void ring(unsigned n) noexcept;
  void collect_magazines(bool at_rest = false) noexcept;
  void note_high_water() noexcept;
  void note_wait(std::int64_t ns, bool got) noexcept;
  bool make_own() noexcept;
  std::uint32_t begin_wait() noexcept;
  void end_wait(std::uint32_t life) noexcept;
  std::uint32_t heal() noexcept;
  void live() noexcept;
  bool try_heal() noexcept;
  /// False in the child of a fork while a caller is at its first call: it may be this very thread, below a signal handler. Until it is
  /// done the others go without magazines.
  bool is_healed() noexcept { return control_->alive.load(Order::acquire) || try_heal(); }
  void mark(std::uint32_t i, std::uint32_t as) noexcept { slots_.node(i).count.store(as, Order::relaxed); }
  std::uint32_t mark_of(std::uint32_t i) const noexcept { return slots_.node(i).count.load(Order::relaxed); }
  std::size_t purge_marked(std::uint32_t carved) noexcept;
  /// The first slot last: as long as that tells how many they are, the child of a fork can mark them, too.
  void mark_chain(const FreeLink* chain) noexcept {
    std::byte* blocks[kChainMax];
    for (unsigned i = Transfer::untie(slots_, chain, blocks); i-- > 0;) mark(slots_.index_of(blocks[i]), kIdleMark);
  }
  void mark_all() noexcept;
  void take_trim_over() noexcept;
  void put_back(std::byte* const* blocks, unsigned n) noexcept;
  void put_marked_back() noexcept;
  Links node_links() const noexcept { return {reinterpret_cast<std::byte*>(&slots_.node(0)), sizeof(Node)}; }
  static std::int64_t now_ns() noexcept {
    struct timespec ts {};
    ::clock_gettime(CLOCK_MONOTONIC, &ts);
    return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
  }
  static void add(Atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept {
    counter.fetch_add(n, Order::relaxed);
  }
  template <class T>
  static void raise(Atomic<T>& most, T value) noexcept {
    T before = most.load(Order::relaxed);
    while (before < value && !most.compare_exchange_weak(before, value, Order::relaxed)) {
    }
  }

  Magazines magazines_;  // first: what a hit reads
  Slots slots_;
  Transfer shared_;
  Control* control_ = nullptr;
  std::byte* region_ = nullptr;
  std::size_t region_bytes_ = 0, page_bytes_ = 4096;
  unsigned batch_ = 1;
  bool keeps_ = false;
  std::uint32_t lives_ = 0;               ///< under the lock
  Atomic<std::uint32_t> is_trimming_{0};  ///< slots are marked; under the lock, but for the child of a fork amid it
  Atomic<FreeLink*> in_hand_{nullptr};    ///< of a trim: the chain that it took last, whose slots need not be marked yet
  alignas(128) Atomic<std::uint32_t> carved_{0};
  Atomic<std::uint32_t> high_water_{0}, bare_count_{0};
  DefaultHead bare_;
  Atomic<std::uint64_t> failures_{0}, steals_{0}, trims_{0}, waits_{0}, timeouts_{0}, wait_ns_{0}, wait_ns_max_{0},
      repeats_{0};
  Atomic<std::uint64_t> wait_histogram_[pool_statistics::kWaitBuckets] = {};
};

}  // namespace mortise::pools

#include "mortise/pool/block_pool_slow.hpp"
