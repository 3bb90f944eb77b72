// The same pool seen in other ways: as 32-bit indices, as raw bytes. A view is a reference: cheap to copy, gone with
// its pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/pool/distributed_pool.hpp"

namespace mortise {

/// Objects by index, for lock-free structures that have 32 bits to spare and no pointer's worth. Same progress as the
/// pool.
template <class Pool>
class pool_index_view {
 public:
  static constexpr std::uint32_t kNone = pools::kNoSlot;
  explicit pool_index_view(Pool& pool) noexcept : pool_(&pool) {}
  /// The index of a fresh object, or kNone.
  template <class... Arguments>
  MORTISE_HOT std::uint32_t try_acquire(Arguments&&... arguments) const noexcept {
    auto* const object = pool_->acquire_raw(std::forward<Arguments>(arguments)...);
    return object ? pool_->index_of(object) : kNone;
  }
  MORTISE_HOT void release(std::uint32_t index) const noexcept { pool_->release(pool_->at(index)); }
  auto& operator[](std::uint32_t index) const noexcept { return *pool_->at(index); }

 private:
  Pool* pool_;
};

/// The slots of a pool that does not keep objects, as bytes: no constructor, no destructor. Bytes and objects come out
/// of one stock.
template <class Pool>
class pool_bytes_view {
 public:
  explicit pool_bytes_view(Pool& pool) noexcept : blocks_(&pool.blocks()) {}
  /// `slot_bytes()` bytes aligned for the pool's type, or null.
  MORTISE_HOT std::byte* try_acquire() const noexcept {
    if (std::byte* const block = blocks_->acquire_hit()) [[likely]]
      return block;
    return blocks_->acquire_slow().block;
  }
  MORTISE_HOT void release(std::byte* block) const noexcept {
    if (!blocks_->release_hit(block)) [[unlikely]]
      blocks_->release_slow(block);
  }
  std::size_t slot_bytes() const noexcept { return blocks_->slots().stride(); }
  bool owns(const void* p) const noexcept { return blocks_->slots().holds(p); }

 private:
  pools::BlockPool* blocks_;
};

template <class T, class Lifetime, class Checks>
pool_index_view<distributed_pool<T, Lifetime, Checks>> index_view(
    distributed_pool<T, Lifetime, Checks>& pool) noexcept {
  return pool_index_view<distributed_pool<T, Lifetime, Checks>>(pool);
}
template <class T, class Lifetime>
  requires(!Lifetime::kKeeps)
pool_bytes_view<distributed_pool<T, Lifetime, unchecked>> bytes_view(
    distributed_pool<T, Lifetime, unchecked>& pool) noexcept {
  return pool_bytes_view<distributed_pool<T, Lifetime, unchecked>>(pool);
}

/// A pool of bare blocks, for sizes known at run time.
class bytes_pool {
 public:
  using value_type = std::byte;
  /// Blocks of `bytes` at `align`, a power of two up to 64 KiB. See `pool_options`; `prefill` is not heeded.
  bytes_pool(std::size_t bytes, std::size_t align, const pool_options& options) noexcept {
    works_ = blocks_.start(options, bytes, align, false);
  }
  explicit operator bool() const noexcept { return works_; }
  pools::BlockPool& blocks() noexcept { return blocks_; }

 private:
  pools::BlockPool blocks_;
  bool works_ = false;
};
inline pool_bytes_view<bytes_pool> bytes_view(bytes_pool& pool) noexcept { return pool_bytes_view<bytes_pool>(pool); }

}  // namespace mortise
