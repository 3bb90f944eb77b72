// What stands before the shared part: magazines, one for each core or one for each of a few threads.
//
// They can be shut: then every call misses and meets the others in the shared part. That is how objects are collected
// that lie idle in front of other cores, and how a release finds out that somebody waits, without a look at anything on
// the hit path.
//
//   shut_all   cores: point every table entry at the closed set, restart running sections (membarrier, or visits);
//                     the sets are now ours
//              locked: take each lock and set the limit to 0
//   open_all   the reverse
//
// Progress: pop and push are wait-free but for restarts; shut_all and open_all belong to one caller at a time, who
// holds the pool's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "mortise/os/cpus.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/os/visits.hpp"
#include "mortise/pool/locked_magazine.hpp"
#include "mortise/pool/transfer.hpp"
#include "mortise/pool/options.hpp"
#include "mortise/pool/thread_record.hpp"

namespace mortise::pools {

class Magazines {
 public:
  static constexpr unsigned kSetsMax = os::kCpusMax;
  static constexpr unsigned kLocked = 64;
  static constexpr std::size_t kTableBytes = kSetsMax * sizeof(std::byte*);
  static constexpr unsigned kBlocksMax = 63;  // half of it and one more are a chain
  using Rack = os::Rack<1>;
  /// What a core has.
  struct alignas(128) Set {
    Rack rack;
    std::byte* slot[kBlocksMax];
  };
  static constexpr std::size_t kSetsBytes = kSetsMax * sizeof(Set);
  static_assert(kBlocksMax <= LockedMagazine::kSlots && kBlocksMax < kChainMax);
  static_assert(kLocked * sizeof(LockedMagazine) <= kSetsBytes, "both kinds lie in the same place");

  /// Shut for ever until started: a call finds the closed set at index 0 of the area that stands in for the kernel's.
  Magazines() noexcept {
    area_.offset =
        reinterpret_cast<const std::byte*>(own_area()) - static_cast<const std::byte*>(__builtin_thread_pointer());
    area_.index_at = area_.offset;
  }

  /// `room`: zeroed memory of kTableBytes and kSetsBytes. `limit`: how many a magazine may hold.
  void start(std::byte* room, const os::RseqArea& area, pool_front front, unsigned limit) noexcept {
    area_ = area;
    front_ = front;
    limit_ = limit;
    table_ = reinterpret_cast<Atomic<std::byte*>*>(room);
    sets_ = room + kTableBytes;
    for (unsigned i = 0; i < kSetsMax; ++i) ::new (static_cast<void*>(&table_[i])) Atomic<std::byte*>(closed());
    entries_ = table_->address();
  }

  MORTISE_HOT std::byte* pop_hit() const noexcept { return Rack::pop(area_, entries_, 0); }
  MORTISE_HOT bool push_hit(std::byte* block) const noexcept { return Rack::push(area_, entries_, 0, block); }

  bool is_locked_kind() const noexcept { return front_ == pool_front::threads || front_ == pool_front::cpus; }
  pool_front front() const noexcept { return front_; }

  /// A number that spreads callers over the shards.
  unsigned place() const noexcept {
    return front_ == pool_front::threads ? number_of_caller<by_thread_in_turn>(area_) : number_of_caller<by_core>(area_);
  }

  std::byte* pop_locked() noexcept { return mine().pop(); }
  bool push_locked(std::byte* block) noexcept { return mine().push(block); }

  /// The newest blocks, up to `n`, the newest of them last.
  unsigned take(std::byte** out, unsigned n) noexcept {
    if (front_ == pool_front::cores) return Rack::take(area_, entries_, 0, out, n);
    return is_locked_kind() ? mine().take(out, n) : 0;
  }
  /// Puts the last of the `n` blocks in first, as many as fit, so that the foremost is popped next; returns how many.
  unsigned give(std::byte* const* in, unsigned n) noexcept {
    if (n == 0) return 0;
    if (front_ == pool_front::cores) return Rack::give(area_, entries_, 0, in, n);
    return is_locked_kind() ? mine().give(in, n) : 0;
  }

  /// Gives blocks, and calls `rest(blocks, n)` with those that did not fit: another thread of this core may have given
  /// some meanwhile.
  template <class Rest>
  void keep(std::byte* const* blocks, unsigned n, Rest&& rest) noexcept {
    const unsigned kept = give(blocks, n);
    if (kept < n) rest(blocks, n - kept);
  }

  /// Whether the caller's magazine has never been used. The one to call `make_own` then.
  bool lacks_own() noexcept {
    if (front_ == pool_front::cores) {
      const unsigned i = os::rseq_index(area_);
      return i < kSetsMax && !is_made(i).load(Order::acquire);
    }
    return is_locked_kind() && !is_made(locked_index()).load(Order::acquire);
  }
  /// Under the pool's lock. `shut`: it is to stay shut for now. One that somebody is inside of is left for another time.
  void make_own(bool shut) noexcept {
    const unsigned i = front_ == pool_front::cores ? os::rseq_index(area_) : locked_index();
    if (i >= kSetsMax || is_made(i).load(Order::relaxed)) return;
    if (front_ == pool_front::cores) set(i).rack.place(0, set(i).slot), set(i).rack.set_limit(0, limit_);
    else if (!shut && !locked(i).try_open(limit_)) return;
    is_made(i).store(1, Order::release);
    if (used_.load(Order::relaxed) <= i) used_.store(i + 1, Order::release);
    if (!shut && front_ == pool_front::cores) open(i);
  }

  /// Calls `collect(blocks, n)` with what each magazine held. Afterwards all calls miss, until open_all.
  /// Sections that still saw the old entries have ended or start again: by membarrier, or by visits to every CPU where that
  /// is refused since the start (a seccomp filter). Where visits are refused too, what lies in the magazines of cores stays.
  /// `at_rest`: no section runs.
  template <class Collect>
  void shut_all(Collect&& collect, bool at_rest = false) noexcept {
    std::byte* blocks[kBlocksMax];
    const unsigned used = used_.load(Order::acquire);
    if (front_ == pool_front::cores) {
      for (unsigned i = 0; i < used; ++i) store_table(i, closed());
      if (!os::rseq_restart_all() && !at_rest && !os::rseq_restart_by_visits()) return;
      for (unsigned i = 0; i < used; ++i) {
        Rack& rack = set(i).rack;
        const unsigned n = rack.count(0);
        if (!n) continue;
        for (unsigned k = 0; k < n; ++k) blocks[k] = set(i).slot[n - 1 - k];
        rack.set_count(0, 0);
        collect(blocks, n);
      }
    } else if (is_locked_kind()) {
      for (unsigned i = 0; i < used; ++i)
        if (const unsigned n = locked(i).set_limit(0, blocks)) collect(blocks, n);
    }
  }
  void open_all() noexcept {
    for (unsigned i = 0; i < used_.load(Order::acquire); ++i)
      if (is_made(i).load(Order::relaxed)) open(i);
  }

  /// How many lie in all magazines: exact when they rest. Those that are just being made do not count: until they have
  /// their slots there is nothing to count from.
  std::uint32_t idle() noexcept {
    std::uint32_t all = 0;
    for (unsigned i = 0; i < used_.load(Order::acquire); ++i)
      if (is_made(i).load(Order::acquire))
        all += is_locked_kind() ? locked(i).count_now() : set(i).rack.count_now(0);
    return all;
  }
  std::uint32_t slack() const noexcept {
    std::uint32_t made = 0;
    for (unsigned i = 0; i < used_.load(Order::acquire); ++i) made += is_made(i).load(Order::relaxed);
    return made * limit_;
  }
  /// In the child of a fork: holders of locks may be gone.
  void reset_after_fork() noexcept {
    if (is_locked_kind())
      for (unsigned i = 0; i < kLocked; ++i) locked(i).held.store(0, Order::relaxed);
    if (front_ == pool_front::cores) os::rseq_register_restart();
  }

 private:
  std::byte* closed() noexcept { return reinterpret_cast<std::byte*>(&closed_); }
  Set& set(unsigned i) const noexcept { return reinterpret_cast<Set*>(sets_)[i]; }
  LockedMagazine& locked(unsigned i) const noexcept { return reinterpret_cast<LockedMagazine*>(sets_)[i]; }
  LockedMagazine& mine() const noexcept { return locked(locked_index()); }
  unsigned locked_index() const noexcept { return SpreadInTurn::spread(place(), kLocked); }
  Atomic<std::uint8_t>& is_made(unsigned i) noexcept { return made_[i]; }
  const Atomic<std::uint8_t>& is_made(unsigned i) const noexcept { return made_[i]; }
  void store_table(unsigned i, std::byte* to) noexcept { table_[i].store(to, Order::release); }
  void open(unsigned i) noexcept {
    std::byte* none[1];
    if (front_ == pool_front::cores) store_table(i, reinterpret_cast<std::byte*>(&set(i)));
    else locked(i).set_limit(limit_, none);
  }

  // What a hit reads comes first.
  os::RseqArea area_;
  std::byte* const* entries_ = &no_table_;  ///< the table as sections read it
  Atomic<std::byte*>* table_ = nullptr;
  std::byte* sets_ = nullptr;
  pool_front front_ = pool_front::none;
  unsigned limit_ = 0;
  Atomic<std::uint32_t> used_{0};
  Atomic<std::uint8_t> made_[kSetsMax] = {};
  Rack closed_{};
  std::byte* no_table_ = reinterpret_cast<std::byte*>(&closed_);
};

}  // namespace mortise::pools
