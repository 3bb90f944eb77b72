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
#include "affinity/tables.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/policy/chooser.hpp"

namespace mortise::affinity {

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

  /// Whether it lies there still: libc unloads modules of its own, and nobody is told.
  bool is_loaded() const noexcept { return module_of(module.first) == module; }
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
  std::uint32_t had;           ///< of the root: those that they took before that
  std::uint32_t grew_at, looked_into_at;  ///< of the root: segments of all pools by its last one, and by the last look into it
  std::uint64_t looked_up;     ///< of the root: objects since then
  std::uint32_t noted;         ///< objects in the table of early ones
  std::uint32_t freed;         ///< those of them whose place an object was given since
  bool was_sampled;

  /// Whether its early objects come and go: three quarters of their places were given out again.
  bool comes_and_goes() const noexcept { return noted >= kNotedBeforeSample && freed * 4 >= noted * 3; }
  static constexpr unsigned kNotedBeforeSample = 8;
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
