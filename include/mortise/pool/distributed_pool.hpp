// A typed pool for any number of threads, over BlockPool (block_pool.hpp), where the ways of an object are drawn.
//
//   struct Message { ... };
//   mortise::distributed_pool<Message> pool{{.maximum = 4096}};
//   if (auto m = pool.try_acquire(arguments of the constructor)) use(*m);      // gives itself back, on any thread
//
// Progress, call by call (docs/pools.md has the table): try_acquire and release are wait-free on a hit, lock-free on a
// miss that finds something in the shared part, blocking where try_acquire must look into other magazines before it
// says no.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "mortise/pool/block_pool.hpp"
#include "mortise/pool/checks.hpp"
#include "mortise/pool/handle.hpp"
#include "mortise/pool/lifetime.hpp"

namespace mortise {

/// `Lifetime`: when objects begin and end, and the hooks. `Checks`: `unchecked`, or `checked_pool` for finding
/// mistakes.
template <class T, PoolLifetime<T> Lifetime = constructed_each_time<T>, class Checks = unchecked>
class distributed_pool {
  static_assert(alignof(T) <= pools::BlockPool::kAlignMax, "distributed_pool<T>: slots begin at multiples of 64 KiB at most");

 public:
  using value_type = T;
  using handle = pool_handle<distributed_pool>;
  static constexpr std::int64_t kForEver = INT64_MAX;

  explicit distributed_pool(const pool_options& options) noexcept
    requires std::default_initializable<Lifetime>
  {
    start(options);
  }
  distributed_pool(const pool_options& options, Lifetime life) noexcept : life_(std::move(life)) { start(options); }
  /// Ends all idle objects. No object may be out any more: its memory goes. Checked pools say which are, on standard
  /// error. No other thread may be in a call on the pool, be it the release of its last object.
  ~distributed_pool() {
    if constexpr (Checks::kChecks) report_leaks();
    if constexpr (Lifetime::kKeeps) blocks_.drain([this](std::byte* block) { life_.destroy(*object_at(block)); });
  }
  distributed_pool(const distributed_pool&) = delete;
  distributed_pool& operator=(const distributed_pool&) = delete;

  /// False when the options made no sense or the system refused the memory: every acquisition then fails.
  explicit operator bool() const noexcept { return works_; }

  /// An object, or an empty handle when `maximum` are in use. Arguments go to the constructor; pools that keep objects
  /// take none.
  template <class... Arguments>
  MORTISE_HOT handle try_acquire(Arguments&&... arguments) noexcept {
    return {this, acquire_raw(std::forward<Arguments>(arguments)...)};
  }
  /// The same, waiting up to `timeout_ns` nanoseconds, or `kForEver`; not at all when a deadline has gone by, which makes it negative.
  /// Blocking. Waiters are not served in order.
  template <class... Arguments>
  MORTISE_HOT handle acquire_for(std::int64_t timeout_ns, Arguments&&... arguments) noexcept {
    return {this, acquire_raw_for(timeout_ns, std::forward<Arguments>(arguments)...)};
  }
  /// The same without a handle: the caller gives it to `release`.
  template <class... Arguments>
  MORTISE_HOT T* acquire_raw(Arguments&&... arguments) noexcept {
    const auto site = Checks::here();
    if (std::byte* const block = blocks_.acquire_hit()) [[likely]]
      return begin(site, block, std::forward<Arguments>(arguments)...);
    return finish(site, blocks_.acquire_slow(), std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  MORTISE_HOT T* acquire_raw_for(std::int64_t timeout_ns, Arguments&&... arguments) noexcept {
    const auto site = Checks::here();
    if (std::byte* const block = blocks_.acquire_hit()) [[likely]]
      return begin(site, block, std::forward<Arguments>(arguments)...);
    return finish(site, blocks_.acquire_wait(timeout_ns), std::forward<Arguments>(arguments)...);
  }
  /// Takes an object back, from any thread.
  MORTISE_HOT void release(T* object) noexcept {
    if (!checks_.may_release(blocks_.slots(), object, Checks::here())) [[unlikely]]
      return;
    if constexpr (Lifetime::kKeeps) life_.reset(*object);
    else life_.destroy(*object);
    auto* const block = reinterpret_cast<std::byte*>(object);
    if (!blocks_.release_hit(block)) [[unlikely]]
      blocks_.release_slow(block);
  }
  pool_deleter<distributed_pool> deleter() noexcept { return {this}; }

  /// Makes objects until `n` exist, so that no later call has to; returns how many exist. Where objects are not kept,
  /// their memory is touched. Lock-free but for the hooks.
  std::uint32_t prefill(std::uint32_t n) noexcept {
    while (blocks_.existing() < n) {
      std::byte* const block = blocks_.take_bare();
      if (!block) break;
      if constexpr (Lifetime::kKeeps) {
        if (!life_.make(block)) {
          blocks_.release_bare(block);
          break;
        }
      }
      blocks_.stock(block);
    }
    return blocks_.existing();
  }
  /// Ends idle objects but for `keep` of them and gives their pages back; returns the bytes. Blocking.
  std::size_t trim(std::uint32_t keep = 0) noexcept {
    return blocks_.trim(keep, [this](std::byte* block) { life_.destroy(*object_at(block)); });
  }

  pool_statistics statistics() noexcept { return blocks_.statistics(); }
  std::uint32_t maximum() const noexcept { return blocks_.slots().maximum(); }
  /// The most objects that may lie in magazines, where a call on another core finds them only after it found nothing
  /// else.
  std::uint32_t capacity_slack() const noexcept { return blocks_.capacity_slack(); }
  pool_front front() const noexcept { return blocks_.front(); }

  /// The index view: 32 bits name an object for as long as the pool lives. Wait-free.
  std::uint32_t index_of(const T* object) const noexcept { return blocks_.slots().index_of(object); }
  T* at(std::uint32_t index) noexcept { return object_at(blocks_.slots().at(index)); }
  bool owns(const T* object) const noexcept { return blocks_.slots().holds(object); }

  Lifetime& hooks() noexcept { return life_; }
  pools::BlockPool& blocks() noexcept { return blocks_; }

  /// Checked pools: a line on standard error for each object that is out; returns how many.
  std::uint32_t report_leaks() const noexcept
    requires(Checks::kChecks)
  {
    return report_leaks([](const char* text) { os::Line<1024>{}.text(text).flush(); });
  }
  template <class Say>
  std::uint32_t report_leaks(Say&& say) const noexcept
    requires(Checks::kChecks)
  {
    return works_ ? checks_.report_leaks(blocks_.slots(), blocks_.created(), say) : 0;
  }

 private:
  using Site = typename Checks::Site;
  void start(const pool_options& options) noexcept {
    if (!blocks_.start(options, sizeof(T), alignof(T), Lifetime::kKeeps)) return;
    works_ = checks_.start(options, blocks_.slots());
    if (!works_) {  // no pool is better than one whose acquisitions look for records that are not there
      std::destroy_at(&blocks_);
      ::new (static_cast<void*>(&blocks_)) pools::BlockPool;
      return;
    }
    if (options.prefill) prefill(options.prefill);
  }
  static T* object_at(std::byte* block) noexcept { return std::launder(reinterpret_cast<T*>(block)); }

  template <class... Arguments>
  MORTISE_HOT T* begin(Site site, std::byte* block, Arguments&&... arguments) noexcept {
    if constexpr (Lifetime::kKeeps) {
      static_assert(sizeof...(Arguments) == 0,
                    "a pool that keeps its objects constructed makes them without arguments");
      checks_.on_acquire(blocks_.slots(), block, site);
      return object_at(block);
    } else {
      T* const object = life_.make(block, std::forward<Arguments>(arguments)...);
      if (!object) [[unlikely]]
        return give_up(block);
      checks_.on_acquire(blocks_.slots(), block, site);
      return object;
    }
  }
  /// No object came to be in it: the block is there for others.
  MORTISE_COLD T* give_up(std::byte* block) noexcept {
    if (!blocks_.release_hit(block)) blocks_.release_slow(block);
    return nullptr;
  }
  template <class... Arguments>
  MORTISE_COLD T* finish(Site site, pools::Taken taken, Arguments&&... arguments) noexcept {
    if (!taken.block) return nullptr;
    if constexpr (Lifetime::kKeeps) {
      if (taken.bare && !life_.make(taken.block)) {
        blocks_.release_bare(taken.block);
        return nullptr;
      }
    }
    return begin(site, taken.block, std::forward<Arguments>(arguments)...);
  }

  pools::BlockPool blocks_;
  [[no_unique_address]] Lifetime life_;
  [[no_unique_address]] Checks checks_;
  bool works_ = false;
};

}  // namespace mortise
