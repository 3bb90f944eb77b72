// What is remembered of chains of calls: ways by key, return addresses, heap nodes, and where early objects lie.
//
// Grows as it is used and is never released; a way's address stays, as threads keep steps by their address. Everything here is
// under the analysis lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/observe/cfi.hpp"
#include "affinity/observe/wrapper.hpp"
#include "affinity/seam.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/policy/chooser.hpp"

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

/// Records with numbers from 1, in blocks that stay where they are.
template <class T, unsigned kBlockLog2, unsigned kBlocks> class Records {
 public:
  static constexpr std::uint32_t kMax = (kBlocks << kBlockLog2) - 1;
  T& operator[](std::uint32_t number) noexcept { return block_[number >> kBlockLog2][number & ((1u << kBlockLog2) - 1)]; }
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

/// A key and what it leads to.
struct Way {
  enum class Kind : std::uint8_t { counted, wrapper, node, gone };
  CallKey key;
  CallStep step;        ///< wrapper
  Kind kind;
  bool was_patched;     ///< node: its call was looked at by CallSites
  std::uint16_t count;  ///< counted: objects so far
  NodeId node;
  std::uint32_t caller; ///< number of the Caller record
};

/// A return address, and what the function behind it is.
struct Caller {
  std::uintptr_t address;
  FrameRule frame;
  WrapperVerdict verdict;
  bool is_judged;
  std::uint16_t module;  ///< number of its KnownModule; 0 for code made at run time
};

struct KnownModule {
  Module module;
  Range code;  ///< the executable part of it that was asked for last
  bool is_gone;
};

struct Node {
  NodeId id, root;             ///< root: of the nodes united with it
  std::uint32_t size_class, chain_length;
  std::uintptr_t chain[kChainMax];
  std::uint64_t objects;
  NodeId previous;
  std::uint32_t alternations;
  Pool* pool;                  ///< of the root: what the united nodes draw from
  bool has_own_pool, is_planned;
  bool passes;                 ///< of the root: its objects come and go, from the pool of the class
  std::uint8_t trials;         ///< of the root: how often that was found
  Why why;
  std::uint32_t grown;         ///< of the root: segments that heads have taken since the class was opened
  std::uint64_t looked_up;     ///< of the root: objects since then
};

/// Where objects of nodes without a pool lie: the last one seen at each 16 bytes. Rows of one word, in buckets of a cache line, twice as
/// many whenever half of them are taken, so that few objects touch few pages. Where a bucket is full, one of its rows is forgotten.
class EarlyObjects {
 public:
  struct Place {
    NodeId node;           ///< kNoNode: in no object that was noted
    std::uint32_t offset;  ///< from the object's start, in granules
  };
  void note(std::uintptr_t object, std::size_t bytes, NodeId node) noexcept;
  Place find(std::uintptr_t address) const noexcept;

 private:
  using Row = std::uint64_t;  ///< granule : 43 │ offset : 6 │ node : 15; 0: empty
  static constexpr unsigned kNodeBits = 15, kOffsetBits = 6, kKeyShift = kNodeBits + kOffsetBits;
  static constexpr unsigned kRows = 8, kFirstLog2 = 6, kLastLog2 = 11;  ///< of a bucket; buckets
  static_assert(kNodesMax <= 1u << kNodeBits && 47 - 4 + kKeyShift <= 64);

  /// Where the bucket of a granule begins when there are so many.
  static std::size_t index_of(std::uint64_t granule, unsigned log2) noexcept { return (Index::hash(granule) >> (64 - log2)) * kRows; }
  void put(std::uint64_t granule, Row row) noexcept;
  void spread() noexcept;

  Row* row_ = nullptr;
  Preset<kFirstLog2> log2_;
  std::uint32_t taken_ = 0, forgotten_ = 0;
};

}  // namespace mortise::affinity
