// Arithmetic on sizes and addresses. Pure functions, no state.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "mortise/core/standard.hpp"

namespace mortise {

/// True when `n` is a power of two; zero is none.
constexpr bool is_power_of_two(std::size_t n) { return n && (n & (n - 1)) == 0; }

/// `n` rounded up to a multiple of `step`, a power of two. Saturates at the largest multiple instead of wrapping to a small
/// number, so that a request too large to serve stays too large.
constexpr std::size_t round_up(std::size_t n, std::size_t step) {
  return n > SIZE_MAX - (step - 1) ? ~(step - 1) : (n + step - 1) & ~(step - 1);
}

constexpr std::size_t round_down(std::size_t n, std::size_t step) { return n & ~(step - 1); }

/// Position of the highest set bit of `n`, which is not zero.
constexpr unsigned log2_floor(std::size_t n) { return 63u - static_cast<unsigned>(std::countl_zero(std::uint64_t{n})); }

inline std::uintptr_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

inline bool is_aligned(const void* p, std::size_t align) { return (address_of(p) & (align - 1)) == 0; }

}  // namespace mortise
