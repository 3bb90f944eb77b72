// What a pool gives to programs that would rather not think about giving back.
#pragma once

#include "mortise/core/inline.hpp"

namespace mortise {

/// An acquired object that returns itself, on whichever thread the handle ends. Move-only, two words, empty when there
/// was none. It must not outlive its pool.
template <class Pool>
class [[nodiscard]] pool_handle {
 public:
  using element_type = typename Pool::value_type;

  constexpr pool_handle() noexcept = default;
  constexpr pool_handle(Pool* pool, element_type* object) noexcept : pool_(pool), object_(object) {}
  MORTISE_HOT pool_handle(pool_handle&& from) noexcept : pool_(from.pool_), object_(from.release()) {}
  MORTISE_HOT pool_handle& operator=(pool_handle&& from) noexcept {
    if (this != &from) {
      reset();
      pool_ = from.pool_;
      object_ = from.release();
    }
    return *this;
  }
  MORTISE_HOT ~pool_handle() { reset(); }

  constexpr explicit operator bool() const noexcept { return object_ != nullptr; }
  constexpr element_type* get() const noexcept { return object_; }
  constexpr element_type& operator*() const noexcept { return *object_; }
  constexpr element_type* operator->() const noexcept { return object_; }

  /// Gives the object back now.
  MORTISE_HOT void reset() noexcept {
    if (object_) pool_->release(release());
  }
  /// The object, which the caller must give to the pool's `release` later; the handle is empty.
  constexpr element_type* release() noexcept {
    element_type* const object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  Pool* pool_ = nullptr;
  element_type* object_ = nullptr;
};

/// For std::unique_ptr and std::shared_ptr: `std::unique_ptr<T, pool_deleter<Pool>> p(pool.acquire_raw(),
/// pool.deleter());` Null is ignored: a shared_ptr calls its deleter also where the pool had nothing to give.
template <class Pool>
struct pool_deleter {
  Pool* pool = nullptr;
  MORTISE_HOT void operator()(typename Pool::value_type* object) const noexcept {
    if (object) pool->release(object);
  }
};

}  // namespace mortise
