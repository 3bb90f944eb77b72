// What the crimes share. Each is a function of a few lines; `announce` prints the pointer that a report must name.
#pragma once

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cstddef>

namespace crimes {

/// What a crime leaves behind when nobody stopped it.
enum class Harm : int {
  done = 0,   ///< the program goes on with damage, or nobody can tell
  none = 10,  ///< the damage that the crime aims at did not come about
};

struct Crime {
  const char* name;
  const char* kind;  ///< spatial, temporal, argument, metadata, read
  Harm (*commit)();
};

extern const Crime kSpatial[], kTemporal[], kArgument[], kMetadata[];
extern const std::size_t kSpatialCount, kTemporalCount, kArgumentCount, kMetadataCount;

/// The allocator's blocks are abused on purpose: the compiler is not to know.
template <class T> T hidden(T value) {
  asm volatile("" : "+r"(value));
  return value;
}
inline char* block(std::size_t n) {
  char* p = static_cast<char*>(malloc(hidden(n)));
  memset(p, 'a', n);
  return p;
}
inline void announce(const void* p) {
  printf("%#lx\n", reinterpret_cast<unsigned long>(p));
  fflush(stdout);
}
inline void release(void* p) { free(hidden(p)); }
/// A single byte that is there already would change nothing, and be no crime: one canary in 255 begins with it.
inline void write_at(char* p, long at, std::size_t n = 1, int value = 0x41) {
  p = hidden(p);
  if (n == 1 && static_cast<volatile char*>(p)[at] == static_cast<char>(value)) value ^= 1;
  for (std::size_t i = 0; i < n; ++i) static_cast<volatile char*>(p)[at + static_cast<long>(i)] = static_cast<char>(value);
}
inline void write_word(void* p, long at, uintptr_t value) {
  auto* word = reinterpret_cast<volatile char*>(hidden(static_cast<char*>(p)) + at);
  for (unsigned i = 0; i < sizeof value; ++i) word[i] = static_cast<char>(value >> (8 * i));
}

/// Whether two of the next blocks of this size are one and the same.
bool same_block_twice(std::size_t n);

/// Whether one of the next blocks of this size lies at `target`.
bool block_at(const void* target, std::size_t n);

}  // namespace crimes
