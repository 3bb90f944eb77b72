// Free chunks in lists by size, two levels of bitmaps over the lists: insertion, removal and search in constant time.
//
//   first level   one bit for each power of two       ... 2^7  2^8  2^9 ...
//   second level  sixteen equal steps within it             └► 256 272 288 ... 496     a list each
//
// A search rounds the size up to the next step, so that the first chunk of any list it finds is large enough: good fit, at most a
// sixteenth larger than asked, plus what merging leaves. Where there is none, the first few of the size's own list are looked at: a
// block of the same size that was freed lies there. Source: [Masmano04] TLSF.
// Progress: not synchronised; whoever holds the lock of the structure it is part of may call. Placement: data.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "mortise/core/bits.hpp"
#include "mortise/core/check.hpp"
#include "mortise/data/links.hpp"

namespace mortise {

/// `Chunk` has `size()`, a multiple of 16, and the links `left` and `right`. All zero is a valid empty set. Every operation but the
/// walks is O(1). `Links`: how links lie in free chunks.
template <class Chunk, class Links = links::Plain> class TwoLevelLists {
 public:
  static constexpr std::size_t kChunkMin = 32;

  void insert(Chunk* c) noexcept {
    const Place p = place_of(c->size());
    Chunk*& first = list(p);
    links_.draw();
    links_.store(c->left, static_cast<Chunk*>(nullptr));
    links_.store(c->right, first);
    if (first) links_.store(first->left, c);
    first = c;
    second_[p.level] |= 1u << p.step;
    first_ |= std::uint64_t{1} << p.level;
  }

  void remove(Chunk* c) noexcept {
    const Place p = place_of(c->size());
    Chunk* const left = links_.load(c->left);
    Chunk* const right = links_.load(c->right);
    if constexpr (Links::kChecks) {
      const bool agree = (!right || links_.load(right->left) == c) && (left ? links_.load(left->right) : list(p)) == c;
      MORTISE_CHECK(agree, Fault::free_list_corrupted, Block(c->bytes(), 0));
    }
    if (right) links_.store(right->left, left);
    if (left) {
      links_.store(left->right, right);
      return;
    }
    list(p) = right;
    // Without a branch: as many instructions whether the list is empty now or not.
    const std::uint32_t second = second_[p.level] & ~(std::uint32_t{right == nullptr} << p.step);
    second_[p.level] = second;
    first_ &= ~(std::uint64_t{second == 0} << p.level);
  }

  /// A chunk of at least `bytes`, still in its list, or null.
  Chunk* find(std::size_t bytes) const noexcept {
    const Place p = place_of(rounded_to_step(bytes));
    if (p.level >= kLevels) return nullptr;
    if (const unsigned steps = second_[p.level] & (~0u << p.step)) return list(p.level, steps);
    const std::uint64_t levels = p.level + 1 < 64 ? first_ & (~std::uint64_t{0} << (p.level + 1)) : 0;
    if (!levels) [[unlikely]] return find_in_own(bytes);
    const auto level = static_cast<unsigned>(std::countr_zero(levels));
    return list(level, second_[level]);
  }

  template <class Visit> void each(Visit visit) const noexcept {
    for (const auto& level : lists_)
      for (Chunk* c : level)
        for (; c; c = links_.load(c->right)) visit(c);
  }

  /// True when every chunk is in its size's list, links agree and the bitmaps say which lists are filled. O(chunks).
  bool is_sound() const noexcept {
    for (unsigned level = 0; level < kLevels; ++level) {
      if ((second_[level] != 0) != (first_ >> level & 1)) return false;
      for (unsigned step = 0; step < kSteps; ++step) {
        Chunk* const first = lists_[level][step];
        if ((first != nullptr) != (second_[level] >> step & 1)) return false;
        for (Chunk *before = nullptr, *c = first; c; before = c, c = links_.load(c->right)) {
          const Place p = place_of(c->size());
          if (p.level != level || p.step != step || links_.load(c->left) != before) return false;
        }
      }
    }
    return true;
  }

 private:
  static constexpr unsigned kStepsLog2 = 4, kSteps = 1u << kStepsLog2;
  static constexpr unsigned kLinearLog2 = 8;  // below 256 bytes steps are 16 bytes, as far apart as sizes are
  static constexpr unsigned kLevels = 44 - kLinearLog2;
  struct Place {
    unsigned level, step;
  };
  static Place place_of(std::size_t size) noexcept {
    if (size < (std::size_t{1} << kLinearLog2)) return {0, static_cast<unsigned>(size >> kStepsLog2)};
    const unsigned top = log2_floor(size);
    return {top - kLinearLog2 + 1, static_cast<unsigned>(size >> (top - kStepsLog2)) & (kSteps - 1)};
  }
  static std::size_t rounded_to_step(std::size_t size) noexcept {
    if (size < (std::size_t{1} << kLinearLog2)) return size;
    return size + (std::size_t{1} << (log2_floor(size) - kStepsLog2)) - 1;
  }
  static constexpr unsigned kLooks = 4;
  [[gnu::noinline, gnu::cold]] Chunk* find_in_own(std::size_t bytes) const noexcept {
    const Place p = place_of(bytes);
    Chunk* c = lists_[p.level][p.step];
    for (unsigned looks = 0; c && c->size() < bytes; c = links_.load(c->right))
      if (++looks == kLooks) return nullptr;
    return c;
  }
  Chunk*& list(Place p) noexcept { return lists_[p.level][p.step]; }
  Chunk* list(unsigned level, unsigned steps) const noexcept {
    return lists_[level][static_cast<unsigned>(std::countr_zero(steps))];
  }

  [[no_unique_address]] Links links_{};
  std::uint64_t first_ = 0;
  std::uint32_t second_[kLevels] = {};
  Chunk* lists_[kLevels][kSteps] = {};
};

}  // namespace mortise
