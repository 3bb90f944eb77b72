// Heaps for C++: an owner, a std::pmr::memory_resource, an allocator for containers. Over mortise/mortise.h; link with -lmortise.
//
//   mortise::heap requests;                                    all its memory goes at the end of the scope, at once
//   mortise::heap_resource resource(requests);
//   std::pmr::vector<int> v(&resource);
//   std::map<int, int, std::less<>, mortise::heap_allocator<std::pair<const int, int>>> m(requests);
//
// Needs the C++ runtime library, as its callers do. Nothing here takes part in the allocators themselves. With -fno-exceptions what
// would throw ends the program: make heaps with mo_heap_create then, and give them to heap::adopt. With -fno-rtti a heap_resource
// is equal to itself alone, and not to others of the same heap.
#pragma once

#if __cplusplus < 201703L
#error "mortise/heap.hpp needs C++17: -std=c++17"
#endif

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

#include "mortise/mortise.h"

namespace mortise {

namespace heaps_detail {
template <class Error> [[noreturn]] inline void fail() {
#if defined(__cpp_exceptions)
  throw Error();
#else
  std::abort();
#endif
}
}  // namespace heaps_detail

/// Owns a heap and destroys it. Move-only. The destructor must run when no thread uses the heap any more; objects in it are not
/// destroyed, their memory is.
class heap {
 public:
  /// Throws std::bad_alloc without memory, or where the options make no sense.
  explicit heap(const mo_heap_options& options = {}) : heap_(mo_heap_create(&options)) {
    if (!heap_) heaps_detail::fail<std::bad_alloc>();
  }
  /// A heap that lives in the `bytes` at `memory`, which must outlive it.
  heap(void* memory, std::size_t bytes) : heap(in(memory, bytes)) {}
  /// Takes over what mo_heap_create gave; null makes an empty one. Does not throw.
  static heap adopt(mo_heap* made) noexcept { return heap(made, Adopted{}); }
  ~heap() { mo_heap_destroy(heap_); }
  heap(heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
  heap& operator=(heap&& other) noexcept {
    if (this != &other) mo_heap_destroy(std::exchange(heap_, std::exchange(other.heap_, nullptr)));
    return *this;
  }

  mo_heap* get() const noexcept { return heap_; }
  /// False for one that was moved from, or adopted as null.
  explicit operator bool() const noexcept { return heap_ != nullptr; }
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept { return mo_heap_alloc(heap_, bytes); }
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) noexcept { return mo_heap_alloc_aligned(heap_, align, bytes); }
  void release(void* block) noexcept { mo_heap_free(heap_, block); }
  void set_limit(std::size_t bytes) noexcept { mo_heap_set_limit(heap_, bytes); }
  mo_heap_stats stats() const noexcept {
    mo_heap_stats s;
    mo_heap_get_stats(heap_, &s);
    return s;
  }

 private:
  struct Adopted {};
  heap(mo_heap* made, Adopted) noexcept : heap_(made) {}
  static mo_heap_options in(void* memory, std::size_t bytes) noexcept {
    mo_heap_options options{};
    options.memory = memory;
    options.bytes = bytes;
    return options;
  }
  mo_heap* heap_;
};

/// A heap as a memory resource. Thread-safe, as the heap is. Does not own it.
class heap_resource final : public std::pmr::memory_resource {
 public:
  explicit heap_resource(const heap& h) noexcept : heap_(h.get()) {}
  explicit heap_resource(mo_heap* h) noexcept : heap_(h) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    void* p = align <= alignof(std::max_align_t) ? mo_heap_alloc(heap_, bytes) : mo_heap_alloc_aligned(heap_, align, bytes);
    if (!p) heaps_detail::fail<std::bad_alloc>();
    return p;
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override { mo_heap_free(heap_, p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#if defined(__cpp_rtti)
    const auto* o = dynamic_cast<const heap_resource*>(&other);
    return o && o->heap_ == heap_;
#else
    return this == &other;
#endif
  }
  mo_heap* heap_;
};

/// A heap as the allocator of a container. Containers on one heap may swap and splice; it goes along when they are moved.
template <class T> class heap_allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  heap_allocator(const heap& h) noexcept : heap_(h.get()) {}  // NOLINT: containers are made from a heap by name
  explicit heap_allocator(mo_heap* h) noexcept : heap_(h) {}
  template <class U> heap_allocator(const heap_allocator<U>& other) noexcept : heap_(other.get()) {}  // NOLINT

  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) heaps_detail::fail<std::bad_array_new_length>();
    void* p = alignof(T) <= alignof(std::max_align_t) ? mo_heap_alloc(heap_, n * sizeof(T))
                                                      : mo_heap_alloc_aligned(heap_, alignof(T), n * sizeof(T));
    if (!p) heaps_detail::fail<std::bad_alloc>();
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t) noexcept { mo_heap_free(heap_, p); }
  mo_heap* get() const noexcept { return heap_; }
  friend bool operator==(const heap_allocator& a, const heap_allocator& b) noexcept { return a.heap_ == b.heap_; }
  friend bool operator!=(const heap_allocator& a, const heap_allocator& b) noexcept { return a.heap_ != b.heap_; }  // C++17

 private:
  mo_heap* heap_;
};

}  // namespace mortise
