// Links in memory that the program has released, and may still write: as they are, or so that a write shows.
//
// Encoded: link = pointer xor (secret + the link's own address). A word that was written by anybody else decodes to no place where a
// chunk can start, but for one in 2^20; a copied one does too, because it lies elsewhere. Unlinking also asks both neighbours whether
// they name this chunk, as [Lea00]'s successors do. Source: safe linking [Itkin20], encoded free lists [mimalloc], [snmalloc].
// Progress: not synchronised. Placement: data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/check.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/core/request.hpp"
#include "mortise/os/entropy.hpp"

namespace mortise::links {

/// Pointers as they are.
struct Plain {
  static constexpr bool kChecks = false;
  void draw() noexcept {}
  template <class C> MORTISE_HOT C* load(C* const& link) const noexcept { return link; }
  template <class C> MORTISE_HOT void store(C*& link, C* to) const noexcept { link = to; }
};

/// Pointers that only this list can read. All zero: no secret drawn yet.
class Encoded {
 public:
  static constexpr bool kChecks = true;
  void draw() noexcept {
    if (!secret_) [[unlikely]] secret_ = os::entropy() | 1;
  }
  /// Reports free_list_corrupted when the link leads to no place where a chunk can start.
  template <class C> C* load(C* const& link) const noexcept {
    const std::uint64_t at = reinterpret_cast<std::uint64_t>(link) ^ mask(&link);
    MORTISE_CHECK(at == 0 || ((at & (kMinAlign - 1)) == kMinAlign - sizeof(C::tag) && at >> 47 == 0), Fault::free_list_corrupted,
                  Block(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&link)), 0));
    return reinterpret_cast<C*>(at);
  }
  template <class C> void store(C*& link, C* to) const noexcept {
    link = reinterpret_cast<C*>(reinterpret_cast<std::uint64_t>(to) ^ mask(&link));
  }

 private:
  std::uint64_t mask(const void* link) const noexcept { return secret_ + reinterpret_cast<std::uint64_t>(link) * 0x9E3779B97F4A7C15ull; }
  std::uint64_t secret_ = 0;
};

}  // namespace mortise::links
