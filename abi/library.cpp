// A composition as a library for programs in C: NAME_malloc and its kin, a heap beside the program's own malloc.
//
//   NAME_malloc ─► heap.allocate_hit ─► done                   NAME_free ─► heap.holds ─► heap.release_hit ─► done
//       └─ miss ─► allocate_slow: start, attach, allocate           └─ else ─► release_slow: null, not ours, miss
//
// The same file serves systems with and without an operating system: what starts the heap and ends the program when it
// is misused lies in start.cpp and report.cpp, or in bare.cpp. errno is nobody's business here.
#include <string.h>

#include "abi/heap.hpp"
#include "abi/hits.hpp"
#include "abi/resize.hpp"

#define MORTISE_C__(name, verb) name##_##verb
#define MORTISE_C_(name, verb) MORTISE_C__(name, verb)
#define MORTISE_C(verb) MORTISE_C_(MORTISE_ALLOCATOR, verb)

namespace mortise::abi {

constinit Heap heap{};
#if __STDC_HOSTED__
constinit Events events{};
constinit thread_local ThreadRecord<Heap::Thread> thread_record{};
#endif

[[gnu::noinline]] void* allocate_slow(std::size_t size, std::size_t align, bool zeroed) noexcept {
  if (size > PTRDIFF_MAX || !prepare_thread()) return nullptr;
  const Block b = heap.allocate(thread(), {.size = size, .align = align, .zeroed = zeroed});
  leave_if_ended();
  return b.ptr;
}

namespace {

MORTISE_HOT void* allocate(Request r) noexcept {
  if (const Block b = hit_with_thread(heap, r)) [[likely]] return b.ptr;
  return allocate_slow(r.size, r.align, r.zeroed);
}

/// The block behind a pointer that must be one of ours.
Block found(void* p) noexcept {
  auto* ptr = static_cast<std::byte*>(p);
  MORTISE_CHECK(heap.holds(ptr), Fault::invalid_free, Block(ptr, 0));
  return heap.measure(heap.block_of(ptr));
}

[[gnu::noinline]] void release_slow(void* p) noexcept {
  if (!p || !prepare_thread()) return;
  heap.release(thread(), found(p));
  leave_if_ended();
  note_release();
}

MORTISE_HOT void release(void* p) noexcept {
  auto* ptr = static_cast<std::byte*>(p);
  Heap::Thread* t = thread_if_ready();
  if (t && heap.holds(ptr) && hit_below(heap, *t, ptr)) [[likely]] return;
  release_slow(p);
}

void* reallocate(void* p, std::size_t size) noexcept {
  const Block old = found(p);
  if (is_refused<Heap>(old)) [[unlikely]] return allocate({.size = size});  // it stays as it is
  if (serves(old, size)) return p;
  if (size > PTRDIFF_MAX || !prepare_thread()) return nullptr;
  return resized(heap, old, size, [](Request r) { return allocate(r); }, [](void* gone) { release(gone); });
}

Usage usage() noexcept {
  Usage u;
  if (prepare_thread()) tell_below(heap, u);
  leave_if_ended();
  return u;
}

}  // namespace
}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::abi;

extern "C" {

MORTISE_EXPORT void* MORTISE_C(malloc)(std::size_t size) noexcept { return allocate({.size = size}); }

MORTISE_EXPORT void MORTISE_C(free)(void* p) noexcept { release(p); }

MORTISE_EXPORT void* MORTISE_C(calloc)(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  return allocate({.size = bytes, .zeroed = true});
}

MORTISE_EXPORT void* MORTISE_C(realloc)(void* p, std::size_t size) noexcept {
  if (!p) return allocate({.size = size});
  if (size) return reallocate(p, size);
  release(p);
  return nullptr;
}

MORTISE_EXPORT void* MORTISE_C(aligned_alloc)(std::size_t align, std::size_t size) noexcept {
  if (!is_power_of_two(align)) return nullptr;
  return allocate({.size = size, .align = align < kMinAlign ? kMinAlign : align});
}

MORTISE_EXPORT std::size_t MORTISE_C(usable_size)(void* p) noexcept { return p ? found(p).size : 0; }

MORTISE_EXPORT std::size_t MORTISE_C(trim)() noexcept {
  if (!prepare_thread()) return 0;
  const std::size_t given = trim_below(heap, thread());
  leave_if_ended();
  return given;
}

MORTISE_EXPORT std::size_t MORTISE_C(live_bytes)() noexcept { return usage().live; }
MORTISE_EXPORT std::size_t MORTISE_C(mapped_bytes)() noexcept { return usage().mapped; }

}  // extern "C"
