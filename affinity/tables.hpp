// Tables of the analysis: they grow as they are used, and are never released. A short program has few nodes, so few pages are touched.
//
//   Index     by hash, numbers of records that lie elsewhere
//   Records   by number, in the order in which they were made
//   PerNode   by node, something that most nodes have
//
// Not synchronised: under the analysis lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/seam.hpp"

namespace mortise::affinity {

/// A table of addresses-to-things: open addressing over numbers of records that lie elsewhere; doubles when three quarters full.
class Index {
 public:
  static std::uint64_t hash(std::uint64_t key) noexcept { return key * 0x9E3779B97F4A7C15ull; }

  /// Visits the candidates for `hash` until `matches(number)`; 0 when there is none.
  template <class Matches> std::uint32_t find(std::uint64_t hash, Matches&& matches) const noexcept {
    if (!slots_) return 0;
    for (std::size_t i = hash >> shift_;; i = (i + 1) & mask()) {
      if (!slots_[i]) return 0;
      if (matches(slots_[i])) return slots_[i];
    }
  }
  /// `rehash(number)` gives the hash of a record that is in already. False without memory.
  template <class Rehash> bool add(std::uint64_t hash, std::uint32_t number, Rehash&& rehash) noexcept {
    if (!slots_ || (count_ + 1) * 4 > capacity() * 3) {
      if (!grow(rehash)) return false;
    }
    put(hash, number);
    ++count_;
    return true;
  }
  void clear() noexcept {
    for (std::size_t i = 0; i < capacity(); ++i) slots_[i] = 0;
    count_ = 0;
  }
  std::size_t bytes() const noexcept { return capacity() * sizeof *slots_; }

 private:
  static constexpr unsigned kFirstLog2 = 8;
  std::size_t capacity() const noexcept { return slots_ ? std::size_t{1} << (64 - shift_) : 0; }
  std::size_t mask() const noexcept { return capacity() - 1; }
  void put(std::uint64_t hash, std::uint32_t number) noexcept {
    std::size_t i = hash >> shift_;
    while (slots_[i]) i = (i + 1) & mask();
    slots_[i] = number;
  }
  template <class Rehash> bool grow(Rehash&& rehash) noexcept {
    const std::size_t before = capacity();
    const unsigned shift = slots_ ? shift_ - 1 : 64 - kFirstLog2;
    auto* const fresh = reinterpret_cast<std::uint32_t*>(analysis_memory((std::size_t{1} << (64 - shift)) * sizeof *slots_));
    if (!fresh) return false;
    const std::uint32_t* const old = slots_;
    slots_ = fresh;
    shift_ = shift;
    for (std::size_t i = 0; i < before; ++i)
      if (old[i]) put(rehash(old[i]), old[i]);
    return true;
  }

  std::uint32_t* slots_ = nullptr;
  unsigned shift_ = 0;  ///< where there are slots
  std::size_t count_ = 0;
};

/// Records with numbers from 1, in blocks that stay where they are. Small blocks: what few records need lies in few pages.
template <class T, unsigned kBlockLog2, unsigned kBlocks> class Records {
 public:
  static constexpr std::uint32_t kMax = (kBlocks << kBlockLog2) - 1;
  T& operator[](std::uint32_t number) noexcept { return block_[number >> kBlockLog2][number & ((1u << kBlockLog2) - 1)]; }
  const T& operator[](std::uint32_t number) const noexcept { return const_cast<Records&>(*this)[number]; }
  std::uint32_t last() const noexcept { return last_; }
  /// A zeroed one; 0 when there is no memory or the limit is reached.
  std::uint32_t add() noexcept {
    const std::uint32_t number = last_ + 1;
    if (number > kMax) return 0;
    T*& block = block_[number >> kBlockLog2];
    if (!block && !(block = reinterpret_cast<T*>(analysis_memory(sizeof(T) << kBlockLog2)))) return 0;
    last_ = number;
    return number;
  }

 private:
  T* block_[kBlocks] = {};
  std::uint32_t last_ = 0;
};

/// Something of each node, zero until it is written.
template <class T> class PerNode {
 public:
  /// A zeroed one where there is none yet. O(1).
  T operator[](NodeId n) const noexcept {
    const T* const block = block_[n / kOfBlock];
    return block ? block[n % kOfBlock] : T{};
  }
  /// To be written to; null without memory. O(1).
  T* at(NodeId n) noexcept {
    T*& block = block_[n / kOfBlock];
    if (!block) block = reinterpret_cast<T*>(analysis_memory(kOfBlock * sizeof(T)));
    return block ? block + n % kOfBlock : nullptr;
  }

 private:
  static constexpr std::uint32_t kOfBlock = 128;
  T* block_[kNodesMax / kOfBlock] = {};
};

}  // namespace mortise::affinity
