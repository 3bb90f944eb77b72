// The Tag slot: what is a checksum made of?
//
// A tag is a function of a block's place and a secret drawn at start, so that a word copied from elsewhere, or written by a program
// that overruns its block, is not the right one. 48 of its bits are compared; the other 16 carry what the guard wants to know.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/entropy.hpp"

namespace mortise {

/// `draw()` chooses the secret, once, before the first tag. `of(address)`: 64 bits.
template <class T>
concept TagPolicy = requires(T& t, std::uintptr_t a) {
  { t.draw() } noexcept;
  { t.of(a) } noexcept -> std::same_as<std::uint64_t>;
  { T::kName } -> std::convertible_to<const char*>;
};

namespace tag {

/// Secret xor address. Two instructions; who reads one tag knows all others. A write that is not aimed at it passes for the right
/// word with a chance of 2^-48.
class Xor {
 public:
  static constexpr const char* kName = "Xor";
  void draw() noexcept { secret_ = os::entropy(); }
  MORTISE_HOT std::uint64_t of(std::uintptr_t address) const noexcept { return secret_ ^ address; }

 private:
  std::uint64_t secret_ = 0;
};

/// A keyed product of the address and two secrets. One tag does not give away the next, three do: it is no cryptographic code. An
/// unaimed write passes with a chance of 2^-48.
class Mixed {
 public:
  static constexpr const char* kName = "Mixed";
  void draw() noexcept {
    secret_ = os::entropy();
    factor_ = os::entropy() | 1;
  }
  MORTISE_HOT std::uint64_t of(std::uintptr_t address) const noexcept { return (address ^ secret_) * factor_; }

 private:
  std::uint64_t secret_ = 0, factor_ = 0;
};

}  // namespace tag
}  // namespace mortise
