// The misses of BlockPool (block_pool.hpp): refill, spill, growth, the search before a failure, waiting, trimming, fork.
#pragma once

#include <sys/mman.h>

#include "mortise/pool/block_pool.hpp"

namespace mortise::pools {

inline bool BlockPool::start(const pool_options& options, std::size_t bytes, std::size_t align, bool keeps) noexcept {
  if (region_ || !options.maximum || options.maximum == kNoSlot || !bytes || !is_power_of_two(align) ||
      align > kAlignMax)
    return false;
  constexpr std::size_t kLine = 64;
  const os::Facts facts = os::read_facts(own_area());
  const std::size_t step = options.padded && align < kLine ? kLine : align;
  const std::size_t stride = round_up(bytes, step);
  const unsigned shards = facts.cpus < Transfer::kShardsMax ? facts.cpus : Transfer::kShardsMax;

  const std::size_t table_at = kControlBytes;
  const std::size_t shards_at = round_up(table_at + Magazines::kTableBytes + Magazines::kSetsBytes, alignof(Transfer::Shard));
  const std::size_t nodes_at = shards_at + shards * sizeof(Transfer::Shard);
  const std::size_t slots_at = round_up(nodes_at + options.maximum * sizeof(Node), kAlignMax);
  std::size_t slots_bytes, all;
  if (stride < bytes || __builtin_mul_overflow(stride, std::size_t{options.maximum}, &slots_bytes)) return false;
  if (__builtin_add_overflow(slots_at + kAlignMax, slots_bytes, &all) || all > SIZE_MAX / 2) return false;
  all = round_up(all, kControlBytes);
  region_ = os::map_sparse(all);
  if (!region_) return false;
  region_bytes_ = all;
  page_bytes_ = facts.page_bytes;
  // The kernel aligns to its own pages; larger alignments start further in.
  std::byte* const base = region_ + (round_up(address_of(region_), kAlignMax) - address_of(region_));
  control_ = ::new (static_cast<void*>(base)) Control{};
  constexpr long kUnknown = -22;  // before Linux 4.14. Else the process has as many mappings as it may: this would be one more
  const long wiped = os::memory_call(SYS_madvise, reinterpret_cast<long>(base), kControlBytes, MADV_WIPEONFORK);
  if (wiped != 0 && wiped != kUnknown) {
    os::unmap(region_, all);
    region_ = nullptr;
    return false;
  }
  live();

  pool_front front = options.front;
  const bool can_restart = facts.can_restart && facts.rseq.is_kernels;
  if (front == pool_front::automatic || (front == pool_front::cores && !can_restart))
    front = can_restart ? pool_front::cores : pool_front::threads;
  const std::uint32_t share = options.maximum / (2 * facts.cpus);
  const unsigned limit = share < 1 ? 1 : share > Magazines::kBlocksMax ? Magazines::kBlocksMax : share;
  batch_ = front == pool_front::none ? 1 : limit / 2 + 1;
  keeps_ = keeps;
  slots_ = Slots(base + slots_at, reinterpret_cast<Node*>(base + nodes_at), stride, options.maximum);
  auto* const shard = reinterpret_cast<Transfer::Shard*>(base + shards_at);
  for (unsigned i = 0; i < shards; ++i) ::new (static_cast<void*>(shard + i)) Transfer::Shard{};
  shared_.start(shard, shards);
  magazines_.start(base + table_at, facts.rseq, front, limit);
  return true;
}

inline Taken BlockPool::acquire_slow() noexcept {
  if (!region_) [[unlikely]]
    return {};
  if (is_healed() && magazines_.is_locked_kind())
    if (std::byte* const block = magazines_.pop_locked()) return {block, false};
  if (const Taken taken = take_shared(); taken.block) return taken;
  return sweep();
}

/// What can be had without a lock: a chain, a bare slot, a new slot.
inline Taken BlockPool::take_shared() noexcept {
  if (magazines_.lacks_own()) [[unlikely]]
    make_own();
  std::byte* blocks[kChainMax];
  if (unsigned n = shared_.pop(slots_, magazines_.place(), blocks)) {
    keep(blocks + 1, n - 1);
    note_high_water();
    return {blocks[0], false};
  }
  if (keeps_) {
    std::byte* const block = take_bare();
    if (block) note_high_water();
    return {block, true};
  }
  const unsigned n = carve(blocks, batch_);
  if (!n) return {};
  keep(blocks + 1, n - 1);
  note_high_water();
  return {blocks[0], true};
}

inline std::byte* BlockPool::take_bare() noexcept {
  if (!region_) return nullptr;
  if (FreeLink* const link = bare_.pop(node_links(), [this] { add(repeats_); })) {
    bare_count_.fetch_sub(1, Order::relaxed);
    return slots_.at(slots_.index_of(link));
  }
  std::byte* block = nullptr;
  return carve(&block, 1) ? block : nullptr;
}

inline void BlockPool::stock(std::byte* block) noexcept {
  const auto touch = [](std::byte* at) { *static_cast<volatile std::byte*>(at) = std::byte{0}; };
  if (!keeps_) {
    for (std::size_t at = 0; at < slots_.stride(); at += page_bytes_) touch(block + at);
    touch(block + slots_.stride() - 1);
  }
  if (!release_hit(block)) release_slow(block);
  note_high_water();  // a magazine may give it out, and nobody would have counted it
}

inline void BlockPool::release_bare(std::byte* block) noexcept {
  bare_count_.fetch_add(1, Order::relaxed);
  bare_.push(node_links(), &slots_.node(slots_.index_of(block)).link, [this] { add(repeats_); });
  ring(1);
}

/// Up to `n` slots that were never used. Lock-free.
inline unsigned BlockPool::carve(std::byte** blocks, unsigned n) noexcept {
  std::uint32_t first = carved_.load(Order::relaxed), end;
  do {
    const std::uint32_t left = slots_.maximum() - first;
    if (!left) return 0;
    end = first + (left < n ? left : n);
  } while (!carved_.compare_exchange_weak(first, end, Order::relaxed));
  for (std::uint32_t i = first; i < end; ++i) blocks[i - first] = slots_.at(i);
  return end - first;
}

/// Everything else was empty: what lies in other magazines? Whoever comes second finds what the first collected.
inline Taken BlockPool::sweep() noexcept {
  Held held(control_->lock);
  heal();
  Taken taken = take_shared();
  if (!taken.block && !control_->bell.waiters() && magazines_.idle()) {
    add(steals_);
    collect_magazines();
    taken = take_shared();
    magazines_.open_all();
  }
  if (!taken.block) add(failures_);
  return taken;
}

/// Under the lock. Leaves the magazines shut.
inline void BlockPool::collect_magazines(bool at_rest) noexcept {
  magazines_.shut_all([this](std::byte* const* blocks, unsigned n) { give_chain(blocks, n); }, at_rest);
}

inline void BlockPool::release_slow(std::byte* block) noexcept {
  if (!is_healed()) [[unlikely]]
    return give_chain(&block, 1);
  if (magazines_.is_locked_kind() && magazines_.push_locked(block)) return;
  if (magazines_.lacks_own()) [[unlikely]] {
    if (make_own() && magazines_.give(&block, 1)) return;
  }
  std::byte* blocks[kChainMax];
  blocks[0] = block;
  const unsigned n = 1 + magazines_.take(blocks + 1, batch_ - 1);
  give_chain(blocks, n);
}

inline void BlockPool::give_chain(std::byte* const* blocks, unsigned n) noexcept {
  shared_.push(slots_, magazines_.place(), blocks, n);
  ring(n);
}

inline void BlockPool::keep(std::byte* const* blocks, unsigned n) noexcept {
  if (!is_healed()) [[unlikely]] {
    if (n) give_chain(blocks, n);
    return;
  }
  magazines_.keep(blocks, n, [this](std::byte* const* rest, unsigned left) { give_chain(rest, left); });
}

inline void BlockPool::ring(unsigned n) noexcept {
  if (control_->bell.ring()) [[unlikely]]
    os::futex_wake(control_->bell.word(), static_cast<int>(n));
}

/// The lock is taken only if nobody holds it: a caller that cannot have it goes without a magazine this time.
inline bool BlockPool::make_own() noexcept {
  if (!control_->lock.try_lock()) return false;
  heal();
  magazines_.make_own(control_->bell.waiters() != 0);
  control_->lock.unlock();
  return true;
}

inline Taken BlockPool::acquire_wait(std::int64_t timeout_ns) noexcept {
  Taken taken = acquire_slow();
  if (taken.block || timeout_ns <= 0 || !region_) return taken;
  const std::int64_t start = now_ns();
  std::uint32_t life = begin_wait();
  for (;;) {
    const std::uint32_t seen = control_->bell.seen();
    taken = take_shared();
    if (taken.block) break;
    const std::int64_t left = timeout_ns - (now_ns() - start);
    if (left <= 0) break;
    os::futex_wait(control_->bell.word(), seen, left);
    if (control_->alive.load(Order::acquire) != life) life = begin_wait();
  }
  end_wait(life);
  note_wait(now_ns() - start, taken.block != nullptr);
  return taken;
}

/// In which life of the pool the caller waits. A signal handler may have forked amid the wait: in the child, where the caller goes on,
/// nobody knows of it before it comes here again.
inline std::uint32_t BlockPool::begin_wait() noexcept {
  Held held(control_->lock);
  const std::uint32_t life = heal();
  if (control_->bell.enter()) collect_magazines();
  return life;
}
inline void BlockPool::end_wait(std::uint32_t life) noexcept {
  Held held(control_->lock);
  if (heal() == life && control_->bell.leave()) magazines_.open_all();
}

template <class Destroy>
void BlockPool::drain(Destroy&& destroy) noexcept {
  if (!region_) return;
  Held held(control_->lock);
  heal();
  collect_magazines(true);
  std::byte* blocks[kChainMax];
  while (const unsigned n = shared_.pop(slots_, 0, blocks))
    for (unsigned i = 0; i < n; ++i) destroy(blocks[i]);
}

template <class Destroy>
std::size_t BlockPool::trim(std::uint32_t keep, Destroy&& destroy) noexcept {
  if (!region_) return 0;
  Held held(control_->lock);
  heal();
  add(trims_);
  collect_magazines();
  is_trimming_.exchange(1, Order::acquire);
  // Idle slots are marked in their nodes, so that the list of them needs no memory and comes out in order of address.
  mark_all();
  const std::uint32_t carved = carved_.load(Order::acquire);
  std::byte* blocks[kChainMax];
  unsigned n = 0;
  for (std::uint32_t i = 0; i < carved && keep; ++i) {
    if (mark_of(i) != kIdleMark) continue;
    --keep;
    blocks[n++] = slots_.at(i);
    if (n == batch_) put_back(blocks, n), n = 0;
  }
  if (n) put_back(blocks, n);
  if (keeps_) {
    for (std::uint32_t i = 0; i < carved; ++i) {
      if (mark_of(i) != kIdleMark) continue;
      bare_count_.fetch_add(1, Order::relaxed);
      mark(i, kBareMark);  // first: the child of a fork meanwhile must not find an object here to destroy again
      compiler_fence();
      shared_.give_up(1);
      destroy(slots_.at(i));
    }
  }
  const std::size_t bytes = purge_marked(carved);
  put_marked_back();
  if (!control_->bell.waiters()) magazines_.open_all();
  ring(carved);
  return bytes;
}

/// Takes what lies on the stacks.
inline void BlockPool::mark_all() noexcept {
  for (FreeLink* chain; (chain = shared_.set_aside(slots_)); mark_chain(chain)) in_hand_.store(chain, Order::relaxed);
  in_hand_.store(nullptr, Order::relaxed);
  while (FreeLink* const link = bare_.pop(node_links(), [] {})) mark(slots_.index_of(link), kBareMark);
}

/// Unmarks the blocks just before others may have them.
inline void BlockPool::put_back(std::byte* const* blocks, unsigned n) noexcept {
  FreeLink* const chain = Transfer::tie(slots_, blocks, n);
  const unsigned place = magazines_.place();
  for (unsigned i = 0; i < n; ++i) mark(slots_.index_of(blocks[i]), i ? 0 : n);
  shared_.put_back(slots_, place, chain);
  ring(n);
}

/// Ends a trim. Slots of low addresses come last, and are taken first.
inline void BlockPool::put_marked_back() noexcept {
  std::byte* blocks[kChainMax];
  unsigned n = 0;
  for (std::uint32_t i = carved_.load(Order::acquire); i-- > 0;) {
    if (mark_of(i) == kBareMark) {
      mark(i, 0);
      bare_.push(node_links(), &slots_.node(i).link, [] {});
    } else if (mark_of(i) == kIdleMark) {
      blocks[n++] = slots_.at(i);
      if (n == batch_) put_back(blocks, n), n = 0;
    }
  }
  if (n) put_back(blocks, n);
  is_trimming_.store(0, Order::release);
}

/// In the child of a fork amid a trim of a thread that is gone: ends it. What that thread was just taking or putting back stays in use. So
/// all others are marked and counted: only of those it is known that they can be had.
inline void BlockPool::take_trim_over() noexcept {
  const FreeLink* const chain = in_hand_.load(Order::relaxed);
  if (chain && mark_of(slots_.index_of(chain)) < kBareMark) mark_chain(chain);
  mark_all();
  std::uint32_t idle = 0, bare = 0, i = carved_.load(Order::acquire);
  while (i-- > 0) idle += mark_of(i) == kIdleMark, bare += mark_of(i) == kBareMark;
  shared_.give_up(std::int64_t{shared_.idle()} - idle);
  bare_count_.fetch_sub(bare_count_.load(Order::relaxed) - bare, Order::relaxed);
  put_marked_back();
}

/// Gives back the whole pages inside runs of marked slots.
inline std::size_t BlockPool::purge_marked(std::uint32_t carved) noexcept {
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < carved;) {
    std::uint32_t end = i;
    while (end < carved && mark_of(end) >= kBareMark) ++end;
    if (end > i) {
      const std::uintptr_t low = round_up(address_of(slots_.at(i)), page_bytes_);
      const std::uintptr_t high = round_down(address_of(slots_.at(end - 1)) + slots_.stride(), page_bytes_);
      if (low < high && os::purge(reinterpret_cast<std::byte*>(low), high - low)) bytes += high - low;
    }
    i = end + 1;
  }
  return bytes;
}

/// Under the lock. In the child of a fork, once: the page of control is all zeros, other threads are gone, and magazines may stand shut.
/// A trim that one of them was at is ended. Returns the life that the pool is in.
inline std::uint32_t BlockPool::heal() noexcept {
  if (const std::uint32_t life = control_->alive.load(Order::relaxed)) return life;
  magazines_.reset_after_fork();
  if (is_trimming_.load(Order::acquire)) take_trim_over();
  magazines_.open_all();
  live();
  return lives_;
}

/// Each life counts rings from a number of its own: who fell asleep in the last one, with what was seen there, does not stay asleep.
inline void BlockPool::live() noexcept {
  ++lives_;
  control_->bell.begin(lives_ << 20);
  control_->alive.store(lives_, Order::release);
}

inline bool BlockPool::try_heal() noexcept {
  if (!control_->lock.try_lock()) return false;
  heal();
  control_->lock.unlock();
  return true;
}

inline void BlockPool::note_high_water() noexcept {
  const std::uint32_t idle = shared_.idle() + bare_count_.load(Order::relaxed);
  const std::uint32_t carved = carved_.load(Order::relaxed);
  if (idle < carved) raise(high_water_, carved - idle);
}

inline void BlockPool::note_wait(std::int64_t ns, bool got) noexcept {
  const auto length = static_cast<std::uint64_t>(ns > 0 ? ns : 0);
  const std::uint64_t us = length / 1000;
  const unsigned bucket = us ? log2_floor(us) + 1 : 0;
  constexpr unsigned kLast = pool_statistics::kWaitBuckets - 1;
  add(waits_);
  if (!got) add(timeouts_);
  add(wait_ns_, length);
  raise(wait_ns_max_, length);
  add(wait_histogram_[bucket < kLast ? bucket : kLast]);
}

inline pool_statistics BlockPool::statistics() noexcept {
  pool_statistics s;
  if (!region_) return s;
  const auto get = [](const Atomic<std::uint64_t>& counter) { return counter.load(Order::relaxed); };
  s.maximum = slots_.maximum();
  s.created = carved_.load(Order::relaxed);
  s.bare = bare_count_.load(Order::relaxed);
  s.idle = shared_.idle() + magazines_.idle();
  s.in_use = s.created > s.idle + s.bare ? s.created - s.idle - s.bare : 0;
  s.high_water = high_water_.load(Order::relaxed);
  s.capacity_slack = magazines_.slack();
  s.refills = shared_.pops();
  s.spills = shared_.pushes();
  s.failures = get(failures_);
  s.steals = get(steals_);
  s.contention = shared_.repeats() + get(repeats_);
  s.trims = get(trims_);
  s.waits = get(waits_);
  s.timeouts = get(timeouts_);
  s.wait_ns = get(wait_ns_);
  s.wait_ns_max = get(wait_ns_max_);
  for (unsigned i = 0; i < pool_statistics::kWaitBuckets; ++i) s.wait_histogram[i] = get(wait_histogram_[i]);
  return s;
}

}  // namespace mortise::pools
