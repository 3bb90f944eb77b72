// malloc(3) and operator new: each entry point says what is asked and goes down the stack.
//
//   malloc ─► heap.allocate_hit ─► done                        free ─► heap.holds ─► heap.release_hit ─► done
//      └─ miss ─► allocate_slow: start, attach, allocate, errno       └─ else ─► free_slow: null, foreign, miss
//
// Only this folder knows errno, zero sizes, and which alignments are legal.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "abi/affinity.hpp"
#include "abi/called.hpp"
#include "abi/foreign.hpp"
#include "abi/front.hpp"
#include "abi/heap.hpp"
#include "abi/hits.hpp"
#include "abi/next.hpp"
#include "abi/release_at.hpp"
#include "abi/resize.hpp"
#include "mortise/os/facts.hpp"

namespace mortise::abi {

constinit Heap heap{};
constinit Events events{};
constinit thread_local ThreadRecord<Heap::Thread> thread_record{};

/// The largest request that is tried: PTRDIFF_MAX, as glibc; larger ones could not be subtracted within.
static constexpr std::size_t kRequestMax = PTRDIFF_MAX;

MORTISE_COLD static void* fail(int error) noexcept {
  errno = error;
  return nullptr;
}

/// At the limit, what caches keep is for everybody: once they are empty there may be room. Then a block of a larger class
/// that has one left, rather than none: without it the limit would be met with parts of many slabs never touched.
MORTISE_COLD static Block allocate_at_limit(Request r) noexcept {
  constexpr std::size_t kTimesMax = 8;
  trim_below(heap, thread());
  Block b{};
  for (Request wish = r; !b && wish.size / kTimesMax <= r.size; wish.size += wish.size / 8 + kMinAlign) {
    b = heap.allocate(thread(), wish);
    if (ChecksSizes<Heap> || wish.size > 256_KiB) break;  // a delete will name the size that was asked for
  }
  return b;
}

/// Inlined where work is left to do afterwards, so that the places of allocations are still the program's.
MORTISE_HOT static void* allocate_missed(std::size_t size, std::size_t align, bool zeroed) noexcept {
  const Request r = {.size = size, .align = align, .zeroed = zeroed};
  if (std::byte* const p = hit_away(heap, thread_if_ready(), r)) return p;
  if (size > kRequestMax || !prepare_thread()) return fail(ENOMEM);
  Block b = heap.allocate(thread(), r);
  if (!b && settings.limit && size <= settings.limit) b = allocate_at_limit(r);
  leave_if_ended();
  return b ? b.ptr : fail(ENOMEM);
}

[[gnu::noinline]] void* allocate_slow(std::size_t size, std::size_t align, bool zeroed) noexcept {
  return allocate_missed(size, align, zeroed);
}

/// The same for heaps that look at the caller, whose registers lie below `site`.
[[maybe_unused]] static void* allocate_slow_at(std::size_t size, std::size_t align, bool zeroed, const void* site) noexcept {
  if (size > kRequestMax || !prepare_thread()) return fail(ENOMEM);
  const Request r = {.size = size, .align = align, .zeroed = zeroed, .site = site};
  Block b = heap.allocate(thread(), r);
  if (!b && settings.limit && size <= settings.limit) b = allocate_at_limit(r);
  leave_if_ended();
  return b ? b.ptr : fail(ENOMEM);
}

namespace {

/// A miss of operator new: what is to be done without memory is decided in new.cpp.
template <bool kMayThrow> [[gnu::noinline]] void* new_slow(std::size_t size, std::size_t align, bool) {
  void* p = is_power_of_two(align) ? allocate_missed(size, align, false) : nullptr;
  return p ? p : new_failed(size, align, kMayThrow, mortise::call_site());
}
template <bool kMayThrow> void* new_slow_at(std::size_t size, std::size_t align, bool, const void* site) {
  void* p = is_power_of_two(align) ? allocate_slow_at(size, align, false, site) : nullptr;
  return p ? p : new_failed(size, align, kMayThrow, *static_cast<const void* const*>(site));
}

/// What to do on a miss: at the program's call of malloc or operator new, and within our own functions.
struct Malloc {
  static constexpr auto kInside = allocate_slow;
  static constexpr auto kAtCall = allocate_slow_at;
};
/// In functions that have work left.
struct MallocAmongOthers {
  static constexpr auto kInside = [](std::size_t size, std::size_t align, bool zeroed) noexcept {
    return allocate_missed(size, align, zeroed);
  };
  static constexpr auto kAtCall = allocate_slow_at;
};
template <bool kMayThrow> struct New {
  static constexpr auto kInside = new_slow<kMayThrow>;
  static constexpr auto kAtCall = new_slow_at<kMayThrow>;
};

template <bool kAmongOthers = false, class H> MORTISE_HOT bool hit(H& h, std::byte* p) noexcept {
  if constexpr (kPassesAlone<H>) return h.is_passed(p) ? h.pass(p) : h.release_pooled(thread_if_ready(), p);
  if constexpr (ReleasesAt<H>) return finish<kAmongOthers>(h, p, h.release_at(*record_of<H>().state, p));
  typename H::Thread* const t = thread_if_ready();
  return t && may_hit(h, p) && hit_below(h, *t, p);
}

/// A hit is inlined into every entry point; a miss is a jump to `Miss`, so that a hit needs no frame.
template <class Miss = Malloc> MORTISE_HOT void* allocate(Request r) noexcept(noexcept(Miss::kInside(0, 0, false))) {
  if constexpr (kReadsCalls<Heap>)
    if (r.site) return allocate_called<Miss>(heap, r);
  if (const Block b = hit_with_thread(heap, r)) [[likely]] return b.ptr;
  return Miss::kInside(r.size, r.align, r.zeroed);
}

/// In functions that the program calls, in tail position: heaps that look at the caller find it.
template <class Miss = Malloc> MORTISE_HOT void* allocate_here(Request r) noexcept(noexcept(Miss::kInside(0, 0, false))) {
  if constexpr (kReadsCalls<Heap>) r.site = call_site();
  return allocate<Miss>(r);
}

MORTISE_HOT void free_missed(void* p) noexcept {
  auto* ptr = static_cast<std::byte*>(p);
  if (!ptr || hit_away(heap, thread_if_ready(), ptr)) return;
  const int error = errno;  // free leaves errno alone
  if (!heap.holds(ptr)) {
    if (!refuses<Card>(ptr, mortise::call_site())) {
      events.foreign_frees.fetch_add(1, Order::relaxed);
      next_free(p);
    }
  } else if (prepare_thread()) {
    Block b = heap.block_of(ptr);
    if constexpr (!kTakesUnsizedBlocks<Heap>)
      if (b.size_class == kNoClass) b = heap.measure(b);
    heap.release(thread(), b);
    leave_if_ended();
    note_release();
  }
  errno = error;
}

[[gnu::noinline]] void free_slow(void* p) noexcept { free_missed(p); }

MORTISE_HOT void release(void* p) noexcept {
  if (hit(heap, static_cast<std::byte*>(p))) [[likely]] return;
  free_slow(p);
}

/// The same in functions that have work left: nothing of it is a call, so that the place of the release is theirs, the program's.
MORTISE_HOT void release_among_others(void* p) noexcept {
  if (hit<true>(heap, static_cast<std::byte*>(p))) [[likely]] return;
  free_missed(p);
}

template <ChecksSizes H> [[gnu::noinline]] void check_and_release(H& h, void* p, std::size_t size, std::size_t align) noexcept {
  auto* const ptr = static_cast<std::byte*>(p);
  if (ptr && h.holds(ptr)) h.check_size(ptr, size, align);
  if constexpr (HitsBySize<H>) free_slow(p);  // it was no hit just now
  else release(p);
}

/// A delete that names a size or an alignment; size 0 where it names none.
template <class H = Heap> MORTISE_HOT void release_as(void* p, std::size_t size, std::size_t align) noexcept {
  if constexpr (ChecksSizes<H>) {
    H& h = heap;
    if constexpr (ReleasesAtBySize<H>) {
      auto* const ptr = static_cast<std::byte*>(p);
      if (align <= kMinAlign && finish(h, ptr, h.release_at_of_size(*record_of<H>().state, ptr, size))) [[likely]] return;
    } else if constexpr (HitsBySize<H>) {
      auto* ptr = static_cast<std::byte*>(p);
      if (typename H::Thread* const t = thread_if_ready(); t && align <= kMinAlign && h.holds(ptr))
        if (h.release_hit_of_size(*t, h.block_of(ptr), size)) [[likely]] return;
    }
    return check_and_release(h, p, size, align);
  }
  release(p);
}

MORTISE_COLD void* resize_foreign(std::byte* p, std::size_t size, const void* site) noexcept {
  return refuses<Card>(p, site) ? allocate({.size = size}) : next_realloc(p, size);
}

/// The next step up when a block is too small or much too large: from hit to hit, in place, by moving pages, or by copying.
[[gnu::noinline]] void* reallocate(std::byte* p, std::size_t size) noexcept {
  if (stays_unpassed(heap, p, size)) return p;
  if (void* const q = moved_by_hit(heap, p, size, [](void* gone) { release_among_others(gone); })) return q;
  if (!heap.holds(p)) [[unlikely]] return resize_foreign(p, size, mortise::call_site());
  if (size > kRequestMax) return fail(ENOMEM);
  const Block old = heap.measure(heap.block_of(p));
  if (is_refused<Heap>(old)) [[unlikely]] return allocate({.size = size});  // it stays as it is
  if (serves(old, size)) return p;
  if (!prepare_thread()) return fail(ENOMEM);
  const int error = errno;
  void* const q = resized(heap, old, size, [](Request r) { return allocate<MallocAmongOthers>(r); },
                          [](void* gone) { release_among_others(gone); });
  if (q) errno = error;
  return q;
}

MORTISE_HOT void* allocate_zeroed(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) [[unlikely]] return fail(ENOMEM);
  return allocate_here({.size = bytes, .zeroed = true});
}

[[gnu::noinline]] void* release_for_null(void* p) noexcept {
  release_among_others(p);
  return nullptr;
}

/// Every call in it is in tail position: what keeps its place, and a malloc by this name, need no frame.
MORTISE_HOT void* resize(void* p, std::size_t size) noexcept {
  if (!p) return allocate_here({.size = size});
  if (size == 0) return release_for_null(p);
  auto* ptr = static_cast<std::byte*>(p);
  return stays(nearest(heap), ptr, size) ? p : reallocate(ptr, size);
}

/// As glibc 2.36: an alignment that is no power of two is rounded up to one, and one that cannot be is wrong use.
MORTISE_COLD void* allocate_aligned(std::size_t align, std::size_t size) noexcept {
  if (align <= kMinAlign) return allocate({.size = size});
  if (align > kRequestMax / 2 + 1) return fail(align > SIZE_MAX / 2 + 1 ? EINVAL : ENOMEM);
  return allocate({.size = size, .align = std::bit_ceil(align)});
}

/// Returns the error instead of setting errno; `*out` is written on success only.
MORTISE_COLD int allocate_posix(void** out, std::size_t align, std::size_t size) noexcept {
  if (!is_power_of_two(align) || align % sizeof(void*)) return EINVAL;
  const int error = errno;
  void* p = allocate_aligned(align, size);
  errno = error;
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

std::size_t page_bytes() noexcept { return ::getauxval(AT_PAGESZ); }

MORTISE_COLD void* allocate_pages(std::size_t size) noexcept {
  return allocate_aligned(page_bytes(), round_up(size ? size : 1, page_bytes()));
}

}  // namespace

void* malloc_in_pool(std::size_t size, std::uint32_t pool) noexcept {
  return allocate_in_pool(heap, {.size = size, .site = call_site()}, pool);
}

}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::abi;

extern "C" {

MORTISE_EXPORT void* malloc(std::size_t size) noexcept { return allocate_here({.size = size}); }

MORTISE_EXPORT void free(void* p) noexcept { release(p); }

MORTISE_EXPORT void* calloc(std::size_t count, std::size_t size) noexcept { return allocate_zeroed(count, size); }

/// realloc(p, 0) frees p and returns null, as glibc's does: programs written for it rely on that.
MORTISE_EXPORT void* realloc(void* p, std::size_t size) noexcept { return resize(p, size); }

MORTISE_EXPORT void* reallocarray(void* p, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) [[unlikely]] return fail(ENOMEM);
  if (front.reallocates) [[unlikely]] return front.reallocates(p, bytes);
  return resize(p, bytes);
}

/// The size need not be a multiple of the alignment.
MORTISE_EXPORT void* aligned_alloc(std::size_t align, std::size_t size) noexcept { return allocate_aligned(align, size); }
MORTISE_EXPORT void* memalign(std::size_t align, std::size_t size) noexcept { return allocate_aligned(align, size); }

MORTISE_EXPORT int posix_memalign(void** out, std::size_t align, std::size_t size) noexcept {
  return allocate_posix(out, align, size);
}

MORTISE_EXPORT void* valloc(std::size_t size) noexcept { return allocate_aligned(page_bytes(), size); }

MORTISE_EXPORT void* pvalloc(std::size_t size) noexcept { return allocate_pages(size); }

MORTISE_EXPORT void cfree(void* p) noexcept { release(p); }

/// C23. A wrong size is ignored: the block knows its own. (Hardened allocators report it.)
MORTISE_EXPORT void free_sized(void* p, std::size_t n) noexcept { release_as(p, n, 1); }
MORTISE_EXPORT void free_aligned_sized(void* p, std::size_t align, std::size_t n) noexcept {
  release_as(p, n, align);
}

MORTISE_EXPORT std::size_t malloc_usable_size(void* p) noexcept {
  auto* ptr = static_cast<std::byte*>(p);
  if (!ptr) return 0;
  if (!heap.holds(ptr)) [[unlikely]] return refuses<Card>(ptr, mortise::call_site()) ? 0 : next_usable_size(p);
  return heap.measure(heap.block_of(ptr)).size;
}

// glibc's own names.
MORTISE_EXPORT void* __libc_malloc(std::size_t size) noexcept { return allocate_here({.size = size}); }
MORTISE_EXPORT void* __libc_calloc(std::size_t count, std::size_t size) noexcept { return allocate_zeroed(count, size); }
MORTISE_EXPORT void* __libc_realloc(void* p, std::size_t size) noexcept { return resize(p, size); }
MORTISE_EXPORT void __libc_free(void* p) noexcept { release(p); }
MORTISE_EXPORT void* __libc_memalign(std::size_t align, std::size_t size) noexcept { return allocate_aligned(align, size); }
MORTISE_EXPORT void* __libc_valloc(std::size_t size) noexcept { return allocate_aligned(page_bytes(), size); }
MORTISE_EXPORT void* __libc_pvalloc(std::size_t size) noexcept { return allocate_pages(size); }
MORTISE_EXPORT int __posix_memalign(void** out, std::size_t align, std::size_t size) noexcept {
  return allocate_posix(out, align, size);
}

}  // extern "C"

// C++'s replaceable allocation functions.
using std::align_val_t, std::nothrow_t;
using enum Derived;
namespace {
constexpr Request aligned(std::size_t n, align_val_t a) {
  return {.size = n, .align = static_cast<std::size_t>(a) < kMinAlign ? kMinAlign : static_cast<std::size_t>(a)};
}
constexpr std::size_t word(align_val_t a) { return static_cast<std::size_t>(a); }
MORTISE_HOT bool is_ours(Derived which) { return __builtin_expect(!front.basic[static_cast<unsigned>(which)], true); }
}  // namespace

MORTISE_EXPORT void* operator new(std::size_t n) { return allocate_here<New<true>>({.size = n}); }
// Those that the C++ library makes of others do as it does where the program has others of its own.
MORTISE_EXPORT void* operator new[](std::size_t n) {
  return is_ours(new_array) ? allocate_here<New<true>>({.size = n}) : new_by_program(new_array, n);
}
MORTISE_EXPORT void* operator new(std::size_t n, const nothrow_t&) noexcept {
  return is_ours(new_nothrow) ? allocate_here<New<false>>({.size = n}) : nothrow_by_program(new_nothrow, n);
}
MORTISE_EXPORT void* operator new[](std::size_t n, const nothrow_t&) noexcept {
  return is_ours(new_array_nothrow) ? allocate_here<New<false>>({.size = n}) : nothrow_by_program(new_array_nothrow, n);
}
MORTISE_EXPORT void* operator new(std::size_t n, align_val_t a) { return allocate_here<New<true>>(aligned(n, a)); }
MORTISE_EXPORT void* operator new[](std::size_t n, align_val_t a) {
  return is_ours(new_array_aligned) ? allocate_here<New<true>>(aligned(n, a)) : new_by_program(new_array_aligned, n, word(a));
}
MORTISE_EXPORT void* operator new(std::size_t n, align_val_t a, const nothrow_t&) noexcept {
  return is_ours(new_aligned_nothrow) ? allocate_here<New<false>>(aligned(n, a)) : nothrow_by_program(new_aligned_nothrow, n, word(a));
}
MORTISE_EXPORT void* operator new[](std::size_t n, align_val_t a, const nothrow_t&) noexcept {
  return is_ours(new_array_aligned_nothrow) ? allocate_here<New<false>>(aligned(n, a))
                                            : nothrow_by_program(new_array_aligned_nothrow, n, word(a));
}

MORTISE_EXPORT void operator delete(void* p) noexcept { release(p); }
MORTISE_EXPORT void operator delete[](void* p) noexcept {
  is_ours(delete_array) ? release(p) : delete_by_program(delete_array, p);
}
MORTISE_EXPORT void operator delete(void* p, const nothrow_t&) noexcept {
  is_ours(delete_nothrow) ? release(p) : delete_by_program(delete_nothrow, p);
}
MORTISE_EXPORT void operator delete[](void* p, const nothrow_t&) noexcept {
  is_ours(delete_array_nothrow) ? release(p) : delete_by_program(delete_array_nothrow, p);
}
MORTISE_EXPORT void operator delete(void* p, std::size_t n) noexcept {
  is_ours(delete_sized) ? release_as(p, n, 1) : delete_by_program(delete_sized, p);
}
MORTISE_EXPORT void operator delete[](void* p, std::size_t n) noexcept {
  is_ours(delete_array_sized) ? release_as(p, n, 1) : delete_by_program(delete_array_sized, p);
}
MORTISE_EXPORT void operator delete(void* p, align_val_t a) noexcept { release_as(p, 0, word(a)); }
MORTISE_EXPORT void operator delete[](void* p, align_val_t a) noexcept {
  is_ours(delete_array_aligned) ? release_as(p, 0, word(a)) : delete_by_program(delete_array_aligned, p, word(a));
}
MORTISE_EXPORT void operator delete(void* p, align_val_t a, const nothrow_t&) noexcept {
  is_ours(delete_aligned_nothrow) ? release_as(p, 0, word(a)) : delete_by_program(delete_aligned_nothrow, p, word(a));
}
MORTISE_EXPORT void operator delete[](void* p, align_val_t a, const nothrow_t&) noexcept {
  is_ours(delete_array_aligned_nothrow) ? release_as(p, 0, word(a)) : delete_by_program(delete_array_aligned_nothrow, p, word(a));
}
MORTISE_EXPORT void operator delete(void* p, std::size_t n, align_val_t a) noexcept {
  is_ours(delete_sized_aligned) ? release_as(p, n, word(a)) : delete_by_program(delete_sized_aligned, p, word(a));
}
MORTISE_EXPORT void operator delete[](void* p, std::size_t n, align_val_t a) noexcept {
  is_ours(delete_array_sized_aligned) ? release_as(p, n, word(a)) : delete_by_program(delete_array_sized_aligned, p, word(a));
}
