// An array of lock-free pools for objects of one type: the classic, small enough to read in one sitting.
//
//            rule: whose pool?                              one entry
//   try_acquire() ──┬─▶ pool 0  head ─▶ entry ─▶ entry      ┌──────┬──────┬───────┬─ ─ ┐
//                   ├─▶ pool 1  head ─▶ entry               │ link │ home │ value │ pad│
//                   └─▶ pool 2  head ─▶ (empty: steal)      └──────┴──────┴───────┴─ ─ ┘
//   release() ────────▶ pool `home` of the entry            heads and entries: a cache line each, or several
//
// 1. try_acquire: pop from the pool that the rule names; when it is empty, from the next ones in turn.
// 2. release: push to the pool that the entry was dealt to at the start, whoever releases it and wherever.
//
// So entries never pile up in pools that nobody takes from, and a program whose producers only take and whose consumers
// only give back does not starve.
//
// Objects are made once, at the start, and live as long as the pool does. Capacity is fixed.
//
// Progress: try_acquire and release are lock-free. A thread that is stopped anywhere holds up nobody; it keeps what it
// acquired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "mortise/core/bits.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/pool/contention.hpp"
#include "mortise/pool/head.hpp"
#include "mortise/pool/thread_record.hpp"
#include "mortise/policy/distribution.hpp"

namespace mortise {

/// `N`: how many pools; with `by_core`, as many as there are CPUs. `Rule`: whose pool serves a call. `Head`: how wide
/// the exchanges are. `Probe`: whether contention is counted.
template <class T, unsigned N, DistributionRule Rule = by_core, class Head = pools::DefaultHead,
          class Probe = pools::Uncounted>
class array_of_pools {
  static_assert(N >= 1, "array_of_pools<T, N>: at least one pool");

 public:
  using value_type = T;
  static constexpr unsigned kPools = N;

  /// Makes `capacity` objects, dealt to the pools in turn. When the system refuses the memory, the pool is empty for
  /// ever and `capacity()` says 0.
  explicit array_of_pools(std::uint32_t capacity) noexcept : area_(pools::find_area()) {
    bytes_ = round_up(std::size_t{capacity} * sizeof(Entry), kPageMax);
    entries_ = capacity ? reinterpret_cast<Entry*>(os::map(bytes_)) : nullptr;
    if (!entries_) return;
    links_ = {reinterpret_cast<std::byte*>(entries_), sizeof(Entry)};
    capacity_ = capacity;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      Entry* const e = ::new (static_cast<void*>(entries_ + i)) Entry{};
      e->home = i % N;
      pools_[e->home].head.push(links_, &e->link, [] {});
    }
  }
  /// Destroys all objects, the acquired ones too.
  ~array_of_pools() {
    for (std::uint32_t i = 0; i < capacity_; ++i) entries_[i].~Entry();
    if (entries_) os::unmap(reinterpret_cast<std::byte*>(entries_), bytes_);
  }
  array_of_pools(const array_of_pools&) = delete;
  array_of_pools& operator=(const array_of_pools&) = delete;

  /// An object, or null when every pool was empty as it was looked at. The caller owns it until `release`. Lock-free.
  T* try_acquire() noexcept {
    const unsigned first = pools::pool_of_caller<Rule>(area_, N);
    if (FreeLink* const link = pools_[first].head.pop(links_, count_repeat())) [[likely]]
      return value_of(link);
    return steal(first);
  }

  /// Takes an object back, from any thread. Lock-free.
  void release(T* object) noexcept {
    Entry* const e = entry_of(object);
    pools_[e->home].head.push(links_, &e->link, count_repeat());
  }

  std::uint32_t capacity() const noexcept { return capacity_; }
  pools::Contention contention() const noexcept { return probe_.sum(); }

  /// Each object has an index below `capacity()`.
  std::uint32_t index_of(const T* object) const noexcept {
    return static_cast<std::uint32_t>(entry_of(object) - entries_);
  }
  T* at(std::uint32_t index) noexcept { return &entries_[index].value; }

 private:
  static constexpr std::size_t kPageMax = 65536;
  static constexpr std::size_t kLine = 64, kAlignMax = 4096;
  static_assert(alignof(T) <= kAlignMax, "array_of_pools<T>: memory is aligned to pages of 4 KiB");
  struct alignas(alignof(T) > kLine ? alignof(T) : kLine) Entry {
    FreeLink link;
    std::uint32_t home = 0;
    T value{};
  };
  struct alignas(2 * kLine) Pool {  // two lines: the processor fetches neighbouring lines in pairs
    Head head;
  };

  MORTISE_COLD T* steal(unsigned first) noexcept {
    for (unsigned k = 1; k < N; ++k) {
      if (FreeLink* const link = pools_[(first + k) % N].head.pop(links_, count_repeat())) {
        probe_.steal();
        return value_of(link);
      }
    }
    probe_.failure();
    return nullptr;
  }
  auto count_repeat() noexcept {
    return [this] { probe_.repeat(); };
  }

  // Where the value lies in an entry: behind the link and the pool's number.
  static constexpr std::size_t kValueAt = round_up(sizeof(FreeLink) + sizeof(std::uint32_t), alignof(T));
  static T* value_of(FreeLink* link) noexcept { return &reinterpret_cast<Entry*>(link)->value; }
  static Entry* entry_of(const T* object) noexcept {
    return reinterpret_cast<Entry*>(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(object)) - kValueAt);
  }

  os::RseqArea area_;
  pools::Links links_{};
  Entry* entries_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t capacity_ = 0;
  [[no_unique_address]] Probe probe_;
  Pool pools_[N];
};

}  // namespace mortise
