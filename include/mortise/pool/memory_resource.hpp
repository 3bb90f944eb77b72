// A pool as a std::pmr::memory_resource: for containers whose nodes have one size. The one header here that needs the
// C++ runtime library, whose class it derives from.
#pragma once

#include <memory_resource>

#include "mortise/pool/views.hpp"

namespace mortise {

/// Requests that fit a slot are served by the pool while it has any; all others, by `upstream`. Does not throw by
/// itself. Thread-safe if `upstream` is.
class pool_resource final : public std::pmr::memory_resource {
 public:
  explicit pool_resource(bytes_pool& pool,
                         std::pmr::memory_resource* upstream = std::pmr::new_delete_resource()) noexcept
      : blocks_(bytes_view(pool)), upstream_(upstream) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (bytes <= blocks_.slot_bytes() && blocks_.slot_bytes() % align == 0 && align <= pools::BlockPool::kAlignMax)
      if (std::byte* const block = blocks_.try_acquire()) return block;
    return upstream_->allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
    if (blocks_.owns(p)) return blocks_.release(static_cast<std::byte*>(p));
    upstream_->deallocate(p, bytes, align);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  pool_bytes_view<bytes_pool> blocks_;
  std::pmr::memory_resource* upstream_;
};

}  // namespace mortise
