// Inlining marks: the only place that knows how a compiler spells them.
//
// A hit path is MORTISE_HOT: inlined through every layer, so that a stack of layers costs what one hand-written function costs.
// A miss is MORTISE_COLD and in tail position: `if (...) [[unlikely]] return slow(...);`, so that it needs no frame on the hit path.
#pragma once

#include "mortise/core/standard.hpp"

#define MORTISE_HOT [[gnu::always_inline]] inline
#define MORTISE_COLD [[gnu::noinline, gnu::cold]]
#define MORTISE_EXPORT [[gnu::visibility("default")]]

// Set while ThreadSanitizer watches.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MORTISE_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(MORTISE_THREAD_SANITIZER)
#define MORTISE_THREAD_SANITIZER
#endif

namespace mortise {

/// Asks for the cache line of `p`, which will be written soon; never faults, waits for nothing.
/// (Compilers know of `prefetchw` only where all CPUs that they build for have it; those that have not take it for nothing.)
MORTISE_HOT void prefetch_to_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

/// The same pointer, which the compiler may not take apart again: an address that is used several times is computed once.
template <class T> MORTISE_HOT T* at_once(T* p) noexcept {
  asm("" : "+r"(p));
  return p;
}

/// Reads a word that another thread may be changing with an atomic store, where any value it had is good enough. A plain load:
/// compilers do not fold an atomic one into the instruction that needs it, and on a hit path that instruction counts.
template <class T> MORTISE_HOT T glance(const T& word) noexcept {
#ifdef MORTISE_THREAD_SANITIZER
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
#else
  return word;
#endif
}

/// Writes a word that others may `glance` at. The writer holds the lock under which alone it is written.
template <class T> MORTISE_HOT void show(T& word, T value) noexcept {
#ifdef MORTISE_THREAD_SANITIZER
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
#else
  word = value;
#endif
}

}  // namespace mortise
