// The Chooser that looks at sizes alone: one pool a size class. The control for every other, and good in itself.
#pragma once

#include "mortise/data/meta_arena.hpp"
#include "mortise/route/call_chain.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// Pools for objects of up to `kBytesMax`. Thread-safe.
template <std::size_t kBytesMax = 128> class BySizeClass {
 public:
  static constexpr const char* kName = "BySizeClass";
  static constexpr bool kReadsCalls = false;

  bool start() noexcept { return true; }
  static constexpr std::size_t object_bytes_max() noexcept { return kBytesMax; }
  static constexpr std::uint32_t epoch() noexcept { return 0; }

  void choose(const CallSite&, std::size_t size, CallChoice& choice) noexcept {
    const auto c = static_cast<std::uint32_t>(size ? (size + kMinAlign - 1) / kMinAlign : 1);
    Held held(lock_);
    choice.key = call_key(0, c);
    choice.pool = &pool_[c];
    if (!choice.pool->id) choice.pool->id = choice.pool->size_class = c;
  }
  void gave(const CallSite&, CallChoice&, void*, std::size_t) noexcept {}

  void lock_all() noexcept { lock_.lock(); }
  void unlock_all() noexcept { lock_.unlock(); }
  void reset_after_fork() noexcept { lock_.reset(); }

 private:
  FutexLock lock_;
  Pool pool_[kBytesMax / kMinAlign + 1] = {};
};

}  // namespace mortise
