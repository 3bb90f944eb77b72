// What the tests of the malloc ABI share: every entry point under its own name, and patterns that show a lost byte.
#pragma once

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cstddef>

#include "mortise_malloc.h"

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void __libc_free(void*);
void* __libc_memalign(std::size_t, std::size_t);
void* __libc_valloc(std::size_t);
void* __libc_pvalloc(std::size_t);
// libc has none of these to link with: they are found in the preloaded library.
[[gnu::weak]] int __posix_memalign(void**, std::size_t, std::size_t);
[[gnu::weak]] void cfree(void*);
[[gnu::weak]] void free_sized(void*, std::size_t);
[[gnu::weak]] void free_aligned_sized(void*, std::size_t, std::size_t);
}

namespace contract {

inline bool is_aligned(const void* p, std::size_t align) { return reinterpret_cast<std::uintptr_t>(p) % align == 0; }

inline bool is_all(const void* p, unsigned char value, std::size_t n) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  return n == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/// Fills with words that depend on place and seed, so that bytes which moved are seen.
inline std::uint64_t pattern_word(std::size_t i, unsigned seed) {
  return (i + 1) * 0x9e3779b97f4a7c15u ^ (seed * 0x2545f491u);
}
inline void write_pattern(void* p, std::size_t n, unsigned seed) {
  auto* bytes = static_cast<unsigned char*>(p);
  for (std::size_t at = 0; at < n; at += 8) {
    const std::uint64_t word = pattern_word(at, seed);
    memcpy(bytes + at, &word, n - at < 8 ? n - at : 8);
  }
}
inline bool has_pattern(const void* p, std::size_t n, unsigned seed) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  for (std::size_t at = 0; at < n; at += 8) {
    const std::uint64_t word = pattern_word(at, seed);
    if (memcmp(bytes + at, &word, n - at < 8 ? n - at : 8) != 0) return false;
  }
  return true;
}

}  // namespace contract
