// mo_heap_alloc and its like: the same way down as malloc's (abi/malloc.cpp), in the heap that is named.
#include <errno.h>
#include <string.h>

#include "abi/heap.hpp"
#include "heaps/heap.hpp"
#include "mortise/mortise.h"

using namespace mortise;
using namespace mortise::heaps;

namespace {

constexpr std::size_t kRequestMax = PTRDIFF_MAX;

void* fail(int error) noexcept {
  errno = error;
  return nullptr;
}

template <class S> MORTISE_HOT void* allocate(S& stack, Request r) noexcept {
  typename S::Thread t;
  if (Block b = hit_below(stack, t, r)) [[likely]] return b.ptr;
  if (r.size > kRequestMax) return fail(ENOMEM);
  const Block b = stack.allocate(t, r);
  return b ? b.ptr : fail(ENOMEM);
}

/// The block of `stack` at `p`; another heap's, or none, is reported.
Block block_of(SpanHeap& h, std::byte* p) noexcept {
  auto& index = h.lease().page_index();
  MORTISE_CHECK(index.holds(p), Fault::invalid_free, Block(p, 0));
  const Span* s = index.span_of(p);
  MORTISE_CHECK(s->owner == index.number_of(reinterpret_cast<std::byte*>(&h)) + 1, Fault::invalid_free, Block(p, 0));
  return h.stack.block_of(p);
}
Block block_of(ArenaHeap& h, std::byte* p) noexcept {
  MORTISE_CHECK(h.stack.holds(p), Fault::invalid_free, Block(p, 0));
  return h.stack.block_of(p);
}
template <class H> Block measured(H& h, const void* p) noexcept {
  const Block b = block_of(h, static_cast<std::byte*>(const_cast<void*>(p)));
  return h.stack.measure(b);
}
template <class F> auto on_heap(mo_heap* h, F&& f) noexcept {
  if (SpanHeap* s = as_spans(h)) [[likely]] return f(*s);
  return f(*as_arena(h));
}

template <class H> void release(H& h, void* p) noexcept {
  typename H::Stack::Thread t;
  Block b = block_of(h, static_cast<std::byte*>(p));
  if (b.size_class != kNoClass)
    if constexpr (Hits<typename H::Stack>)
      if (h.stack.release_hit(t, b)) [[likely]] return;
  if (b.size_class == kNoClass) b = h.stack.measure(b);
  h.stack.release(t, b);
  abi::note_release();
}

template <class H> void* reallocate(H& h, void* p, std::size_t size) noexcept {
  typename H::Stack::Thread t;
  const Block old = measured(h, p);
  if (size <= old.size && size >= old.size / 2 && old.size_class != kNoClass) return p;
  if (old.size_class == kNoClass)
    if (const Block b = resize_below(h.stack, t, old, size)) {
      if (size < old.size) abi::note_release();
      return b.ptr;
    }
  const int error = errno;
  const Block larger = size > old.size ? allocate_growing(h.stack, t, size) : Block{};
  void* const fresh = larger ? larger.ptr : allocate(h.stack, {.size = size});
  if (!fresh) {  // a smaller block is a gift: at the limit the old one does
    if (size > old.size) return nullptr;
    errno = error;
    return p;
  }
  memcpy(fresh, p, size < old.size ? size : old.size);
  release(h, p);
  return fresh;
}

}  // namespace

extern "C" {

MORTISE_EXPORT void* mo_heap_alloc(mo_heap* heap, std::size_t size) noexcept {
  return on_stack(heap, [&](auto& stack) { return allocate(stack, {.size = size}); });
}

MORTISE_EXPORT void* mo_heap_alloc_zeroed(mo_heap* heap, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return fail(ENOMEM);
  return on_stack(heap, [&](auto& stack) { return allocate(stack, {.size = bytes, .zeroed = true}); });
}

MORTISE_EXPORT void* mo_heap_alloc_aligned(mo_heap* heap, std::size_t align, std::size_t size) noexcept {
  if (!is_power_of_two(align)) return fail(EINVAL);
  if (align > kRequestMax / 2) return fail(ENOMEM);
  if (align < kMinAlign) align = kMinAlign;
  return on_stack(heap, [&](auto& stack) { return allocate(stack, {.size = size, .align = align}); });
}

MORTISE_EXPORT void* mo_heap_realloc(mo_heap* heap, void* block, std::size_t size) noexcept {
  if (!block) return mo_heap_alloc(heap, size);
  if (size > kRequestMax) return fail(ENOMEM);
  return on_heap(heap, [&](auto& h) { return reallocate(h, block, size); });
}

MORTISE_EXPORT void mo_heap_free(mo_heap* heap, void* block) noexcept {
  if (!block) return;
  const int error = errno;
  on_heap(heap, [&](auto& h) { release(h, block); });
  errno = error;
}

MORTISE_EXPORT mo_heap* mo_heap_of(const void* block) noexcept {
  auto& index = abi::heap.page_index();
  const auto* p = static_cast<const std::byte*>(block);
  if (!abi::heap.holds(p)) return nullptr;
  const Span* s = index.span_of(p);
  const SpanState state = s->state;
  if (!s->owner || (state != SpanState::slab && state != SpanState::large)) return nullptr;
  return reinterpret_cast<SpanHeap*>(index.base_of(&index.spans()[s->owner - 1]));
}

MORTISE_EXPORT void mo_free(void* block) noexcept {
  if (!block) return;
  mo_heap* const heap = mo_heap_of(block);
  MORTISE_CHECK(heap, Fault::invalid_free, Block(static_cast<std::byte*>(block), 0));
  mo_heap_free(heap, block);
}

MORTISE_EXPORT std::size_t mo_heap_usable_size(mo_heap* heap, const void* block) noexcept {
  return block ? on_heap(heap, [&](auto& h) { return static_cast<std::size_t>(measured(h, block).size); }) : 0;
}

}  // extern "C"
