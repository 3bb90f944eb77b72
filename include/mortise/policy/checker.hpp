// The Checker slot: which memory checker is told what is a block (watch/annotated.hpp)?
//
// Each costs a few instructions where its checker is not there.
#pragma once

#include <concepts>
#include <cstddef>

#include "mortise/core/inline.hpp"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

// AddressSanitizer's run-time library has these; null in programs without it.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* p, std::size_t n);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* p, std::size_t n);
}

namespace mortise {

/// `given(p, n, zeroed)`: these bytes are a block. `taken(p, n)`: they are none any more.
/// `hide(p, n)` and `show(p, n)`: nobody, or we alone, may touch this.
template <class C>
concept CheckerPolicy = requires(std::byte* p, std::size_t n, bool zeroed) {
  { C::given(p, n, zeroed) } noexcept;
  { C::taken(p, n) } noexcept;
  { C::hide(p, n) } noexcept;
  { C::show(p, n) } noexcept;
  { C::kName } -> std::convertible_to<const char*>;
};

namespace checker {

#ifdef VALGRIND_MALLOCLIKE_BLOCK
/// valgrind's memcheck, by client requests: out of bounds, use after release, double release, uninitialised values, leaks.
struct Memcheck {
  static constexpr const char* kName = "Memcheck";
  static void given(std::byte* p, std::size_t n, bool zeroed) noexcept { VALGRIND_MALLOCLIKE_BLOCK(p, n, 0, zeroed); }
  static void taken(std::byte* p, std::size_t) noexcept { VALGRIND_FREELIKE_BLOCK(p, 0); }
  static void hide(std::byte* p, std::size_t n) noexcept { static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(p, n)); }
  static void show(std::byte* p, std::size_t n) noexcept { static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(p, n)); }
};
#endif

/// AddressSanitizer: out of bounds and use after release, for heaps inside a program that is compiled with it.
struct Address {
  static constexpr const char* kName = "AddressSanitizer";
  static void given(std::byte* p, std::size_t n, bool) noexcept { show(p, n); }
  static void taken(std::byte* p, std::size_t n) noexcept { hide(p, n); }
  static void hide(std::byte* p, std::size_t n) noexcept {
    if (&__asan_poison_memory_region) __asan_poison_memory_region(p, n);
  }
  static void show(std::byte* p, std::size_t n) noexcept {
    if (&__asan_unpoison_memory_region) __asan_unpoison_memory_region(p, n);
  }
};

}  // namespace checker
}  // namespace mortise
