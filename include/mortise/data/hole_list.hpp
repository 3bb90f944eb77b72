// Free ranges of a source, kept in the ranges themselves: address order, first fit, neighbours merged.
//
//   low address                                       high address
//   ┌──────┬───────┬──────────┬───────┬───────────────┐
//   │ used │ hole ─┼──────────┼─▶ hole│ used          │   a hole's first words: the next hole and its own size
//   └──────┴───────┴──────────┴───────┴───────────────┘
//
// Source: [Knuth73] 2.5, address-ordered list. For sources, which are asked rarely: every operation is O(holes).
#pragma once

#include <cstddef>
#include <cstring>

namespace mortise {

/// Ranges are multiples of 16 bytes. Not synchronised. All zero is a valid empty list. A range reads as zero when it is taken,
/// if it did when it was put.
class HoleList {
 public:
  /// Takes the first range of at least `bytes`, cut to that size; null when there is none.
  std::byte* take(std::size_t bytes) noexcept {
    for (Hole** link = &first_; *link; link = &(*link)->next) {
      Hole* const hole = *link;
      if (hole->bytes < bytes) continue;
      Hole* rest = hole->next;
      if (hole->bytes > bytes) {
        rest = reinterpret_cast<Hole*>(reinterpret_cast<std::byte*>(hole) + bytes);
        *rest = {hole->next, hole->bytes - bytes};
      }
      *link = rest;
      bytes_ -= bytes;
      std::memset(static_cast<void*>(hole), 0, sizeof *hole);
      return reinterpret_cast<std::byte*>(hole);
    }
    return nullptr;
  }

  void put(std::byte* at, std::size_t bytes) noexcept {
    Hole* before = nullptr;
    Hole** link = &first_;
    while (*link && reinterpret_cast<std::byte*>(*link) < at) {
      before = *link;
      link = &before->next;
    }
    Hole* const hole = reinterpret_cast<Hole*>(at);
    *hole = {*link, bytes};
    *link = hole;
    bytes_ += bytes;
    if (hole->next && hole->end() == reinterpret_cast<std::byte*>(hole->next)) swallow_next(hole);
    if (before && before->end() == at) swallow_next(before);
  }

  /// Takes the range that ends at `end`, whole; its size goes to `bytes`. Null when none ends there.
  std::byte* take_ending_at(const std::byte* end, std::size_t& bytes) noexcept {
    for (Hole** link = &first_; *link; link = &(*link)->next) {
      Hole* const hole = *link;
      if (hole->end() != end) continue;
      *link = hole->next;
      bytes = hole->bytes;
      bytes_ -= bytes;
      std::memset(static_cast<void*>(hole), 0, sizeof *hole);
      return reinterpret_cast<std::byte*>(hole);
    }
    return nullptr;
  }

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Hole {
    Hole* next;
    std::size_t bytes;
    const std::byte* end() const noexcept { return reinterpret_cast<const std::byte*>(this) + bytes; }
  };
  static void swallow_next(Hole* hole) noexcept {
    Hole* const next = hole->next;
    *hole = {next->next, hole->bytes + next->bytes};
    std::memset(static_cast<void*>(next), 0, sizeof *next);
  }

  Hole* first_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mortise
