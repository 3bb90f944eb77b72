// The head of a lock-free stack of entries that are never unmapped, in three widths. The link is beside what the
// program owns, never inside it, so a slow pop that still reads it disturbs nobody.
//
//   PairHead        tag and pointer, pop and push exchange all 128 bits (sync/lock_free_bin.hpp)
//   AsymmetricHead  tag and pointer; pop exchanges 128 bits, push only the 64 of the pointer
//   IndexHead       32-bit tag and 32-bit index in one 64-bit word
//
// Why push may leave the tag alone. The danger is a pop that read the top, then its link, and exchanges although the
// top was taken, changed and put back in between. Being put back needs a pop first, and every pop counts the tag. The
// pop must read the tag *before* the top, though: then an equal tag at its exchange says that no pop has happened
// since, so the top it read was on the stack all the time and its link did not change. Read the other way round, an old
// top would go with a new tag. Therefore the tag is the first half of the pair, which load_halves() reads first.
//
// A repeated exchange means that another thread's succeeded. `Repeat` is called for each: that is what contention is
// counted by.
//
// Progress: lock-free. Source: [Treiber86] with the tag of [Michael04]; the narrow push as in the array of pools it was
// made for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/progress.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/free_link.hpp"
#include "mortise/sync/lock_free_bin.hpp"

namespace mortise::pools {

/// Where links lie: `base`, and one every `stride` bytes. Only IndexHead needs to know.
struct Links {
  std::byte* base;
  std::size_t stride;
};

struct AsymmetricHead {
  static constexpr const char* kName = "AsymmetricHead";

  template <class Repeat>
  void push(const Links&, FreeLink* link, Repeat&& repeat) noexcept {
    std::uint64_t top = address(head_.load_halves(Order::relaxed).top);
    for (;;) {
      link->next.store(pointer(top), Order::relaxed);  // published by the exchange, which releases
      if (head_.compare_exchange_high(top, address(link))) return;
      repeat();
    }
  }

  template <class Repeat>
  FreeLink* pop(const Links&, Repeat&& repeat) noexcept {
    // The acquire pairs with the release of the push that made this top: its link is what that push wrote, or later.
    Head head = head_.load_halves(Order::acquire);
    while (head.top) {
      FreeLink* const next = head.top->next.load(Order::relaxed);
      if (head_.compare_exchange(head, {head.tag + 1, next})) return head.top;
      repeat();
    }
    return nullptr;
  }

 private:
  struct Head {
    std::uint64_t tag;
    FreeLink* top;
  };
  static std::uint64_t address(const FreeLink* link) noexcept { return reinterpret_cast<std::uint64_t>(link); }
  static FreeLink* pointer(std::uint64_t word) noexcept { return reinterpret_cast<FreeLink*>(word); }

  AtomicPair<Head> head_;
};

struct IndexHead {
  static constexpr const char* kName = "IndexHead";

  template <class Repeat>
  void push(const Links& links, FreeLink* link, Repeat&& repeat) noexcept {
    std::uint64_t head = head_.load(Order::relaxed);
    for (;;) {
      link->next.store(link_of(links, head), Order::relaxed);
      if (head_.compare_exchange_weak(head, with_index(head, index_of(links, link)), Order::release, Order::relaxed))
        return;
      repeat();
    }
  }

  template <class Repeat>
  FreeLink* pop(const Links& links, Repeat&& repeat) noexcept {
    std::uint64_t head = head_.load(Order::acquire);
    while (FreeLink* const top = link_of(links, head)) {
      FreeLink* const next = top->next.load(Order::relaxed);
      const std::uint64_t left = with_index(head + kOneTag, index_of(links, next));
      if (head_.compare_exchange_weak(head, left, Order::acquire, Order::acquire)) return top;
      repeat();
    }
    return nullptr;
  }

 private:
  static constexpr std::uint64_t kOneTag = std::uint64_t{1} << 32;
  static std::uint64_t with_index(std::uint64_t head, std::uint64_t index) noexcept {
    return (head & ~(kOneTag - 1)) | index;
  }
  /// Counted from 1: 0 is none.
  static std::uint64_t index_of(const Links& links, const FreeLink* link) noexcept {
    return link ? static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(link) - links.base) / links.stride + 1
                : 0;
  }
  static FreeLink* link_of(const Links& links, std::uint64_t head) noexcept {
    const std::uint64_t index = head & (kOneTag - 1);
    return index ? reinterpret_cast<FreeLink*>(links.base + (index - 1) * links.stride) : nullptr;
  }

  Atomic<std::uint64_t> head_{0};
};

/// Both ways exchange the pair: the shared bin as it is. Its repeats are not counted.
struct PairHead {
  static constexpr const char* kName = "PairHead";
  template <class Repeat>
  void push(const Links&, FreeLink* link, Repeat&&) noexcept {
    bin_.push(link);
  }
  template <class Repeat>
  FreeLink* pop(const Links&, Repeat&&) noexcept {
    return bin_.pop();
  }

 private:
  LockFreeBin bin_;
};

using DefaultHead = AsymmetricHead;

}  // namespace mortise::pools
