// The one thread_local: what a stack keeps for a thread, and the thread's stand-in for the kernel's rseq area.
//
// At most 64 bytes, so that the shared object can be opened with dlopen, whose static TLS is scarce. A stack with
// thread state keeps it in bookkeeping memory, and here is only the pointer; a few words that are ready when they are zero, or
// to which nobody else has a pointer, lie here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mortise/os/rseq.hpp"

namespace mortise::abi {

/// State of which hits know by themselves that nobody has made it: they refuse, and write nothing to it.
template <class T> inline constexpr bool kRefusesAsZero = requires { requires T::kRefusesAsZero; };

/// Nobody's state, all zero. Where hits refuse it a thread starts with it, and no hit has to ask whether there is any.
template <class T> constinit inline T closed_state{};

template <class T> struct ThreadRecord {
  static constexpr T* kNone = kRefusesAsZero<T> ? &closed_state<T> : nullptr;
  os::OwnArea area;
  T* state = kNone;            ///< none before the thread's first miss
  bool ended = false;          ///< its end has been announced: it keeps no state between calls any more
  std::int32_t countdown = 0;  ///< of layers that serve hits without the state but for a count (SampledGuards)
  std::uint64_t signals = 0;   ///< which were blocked before it got its state for one call

  MORTISE_HOT T* ready() noexcept { return kRefusesAsZero<T> && state == kNone ? nullptr : state; }
};

/// Nothing has to be made or ended for a thread.
template <class T> inline constexpr bool kIsReadyAsZero = std::is_empty_v<T>;
template <class T> requires requires { T::kNeedsNoMaking; }
inline constexpr bool kIsReadyAsZero<T> = T::kNeedsNoMaking && sizeof(T) <= 32 && std::is_trivially_destructible_v<T>;

/// A few words to which nobody else has a pointer, and whose hits refuse while they are zero: they lie in the record itself.
template <class T> concept LiesInRecord = requires { requires T::kLiesInRecord; } && sizeof(T) <= 24 && std::is_trivially_destructible_v<T>;

/// A hit that finds nothing in the caches, after an interruption, waits for no pointer more. One cache line where libraries opened with
/// dlopen may ask for that: elsewhere glibc aligns static TLS to 16 or 32 bytes, and would refuse to open the library.
#ifdef __x86_64__
inline constexpr std::size_t kRecordAlign = 64;
#else
inline constexpr std::size_t kRecordAlign = alignof(void*);
#endif
template <LiesInRecord T> struct alignas(kRecordAlign) ThreadRecord<T> {
  os::OwnArea area;
  T state;
  bool is_made = false;
  bool ended = false;         ///< as above
  std::uint64_t signals = 0;  ///< as above

  MORTISE_HOT T* ready() noexcept { return is_made ? &state : nullptr; }
};

/// A stack without thread state has nothing to wait for.
template <class T> requires kIsReadyAsZero<T> struct ThreadRecord<T> {
  os::OwnArea area;
  T state;

  MORTISE_HOT T* ready() noexcept { return &state; }
};

}  // namespace mortise::abi
