// Where the two halves of affinity pools meet: what the run-time half (observe/) shows, and what the analysis half (graph/,
// place/) asks for.
//
//   malloc ─► AffinityPools ─ miss ─► Observer: chain ─► node ─ object 24, 32 ─► observed()            (analysis half)
//                 ▲                                                                     │
//                 └──────────── pool of a node ◄── unite, divide_from_size_class, fold_back
//
// Everything here runs inside malloc, on its slow path, under the analysis lock: no malloc, no C++ runtime library, memory from
// `analysis_memory`. Nothing here may fault: foreign memory is read through a checked path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/sync/atomics.hpp"

namespace mortise::os {
class Output;
}

namespace mortise::affinity {

/// Index of a heap node: all objects of one size class whose chain of calls, from malloc's caller up to the first function that
/// is no wrapper, is the same. 0 = none. Small and dense: 1, 2, 3, ...
using NodeId = std::uint32_t;

enum class Mixing : std::uint8_t;

inline constexpr NodeId kNoNode = 0;
inline constexpr NodeId kNodesMax = 1u << 15;   ///< beyond, allocations go to the allocator below (code made at run time)
inline constexpr unsigned kChainMax = 8;        ///< levels of calls that a chain may have

/// The registers of the function that called the outermost wrapper, at the instruction after that call: a wrapper has returned
/// and the new object's address is in rax. What a call does not preserve is not known.
struct Resume {
  std::uintptr_t pc;                ///< = the last address of the node's chain
  std::uintptr_t sp;                ///< after the return
  std::uintptr_t callee_saved[6];   ///< rbx rbp r12 r13 r14 r15
  std::uint8_t known;               ///< bit i: callee_saved[i] could be recovered
};

struct NodeView {
  NodeId id;
  std::uint32_t size_class;         ///< class c holds objects of up to 16·c bytes
  std::uint32_t chain_length;
  const std::uintptr_t* chain;      ///< return addresses, malloc's caller first; lives as long as the process
  std::uint64_t objects;            ///< allocated while they were counted: all before the node has a pool, then by segments
  NodeId previous;                  ///< the node from which this thread allocated just before, while both are still counted
  std::uint32_t alternations;       ///< how often that was the same node as the time before
  NodeId pool;                      ///< the node whose pool this one's objects come from; itself, or 0 while there is none
  bool has_own_pool;                ///< false: the pool of the size class
  std::uint32_t grew_at;            ///< how many segments all pools had taken when this one took its last,
  std::uint32_t looked_into_at;     ///< and at the last look into its objects (pool_grew), or its first segment
};

/// Why two nodes share a pool: for the dump and the viewer.
enum class Why : std::uint8_t { none, type_one, type_two, co_allocated, plan, part, same_chain, one_structure, own_part };

// -- the run-time half calls (weak: without the analysis half nobody is told; hidden: nobody else is meant)
#pragma GCC visibility push(hidden)

/// Object number 24 or 32 of a node whose objects stay, just before its address is returned.
[[gnu::weak]] void observed(const NodeView& node, void* object, std::size_t size, const Resume& resume) noexcept;
/// Every object of a node that is still counted, just before its address is returned: for the address table's neighbours and
/// the co-allocation rule. Must be cheap.
[[gnu::weak]] void counted(NodeId node, std::size_t size) noexcept;
/// A node has reached the threshold m and is about to get a pool: the last moment for unite and divide_from_size_class.
[[gnu::weak]] void about_to_pool(const NodeView& node) noexcept;
/// A node's pool has taken so many segments, of which the one at `full`, of `bytes`, was filled last.
[[gnu::weak]] void pool_grew(const NodeView& node, std::uintptr_t full, std::size_t bytes) noexcept;
/// What a plan says of the way through `chain` (malloc's caller first) for a size class: go on upwards, or a node of that pool.
/// Asked at the first object of each way, when the program runs with a plan.
struct PlannedWay {
  enum class Kind : std::uint8_t { unknown, wrapper, node } kind;
  bool has_own_pool;   ///< node: its own pool, or the size class's
  NodeId with;         ///< node: shares the pool of this one, which exists already; 0 = none
};
/// Reads the plan at `path`, which must stay: before the program begins, since it may go to another folder, or give up its rights.
[[gnu::weak]] void read_plan(const char* path) noexcept;
[[gnu::weak]] PlannedWay planned(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept;
/// Code or data between these addresses is gone: what was learnt of it must be forgotten.
[[gnu::weak]] void unloaded(std::uintptr_t first, std::uintptr_t last) noexcept;
/// Samples memory accesses `per_second` times in each second of CPU time, from now on.
[[gnu::weak]] bool start_profile(unsigned per_second) noexcept;
/// Around a fork: no sample is taken meanwhile, and the child, which has no timer of its parent's, begins anew.
[[gnu::weak]] void hold_profile() noexcept;
[[gnu::weak]] void release_profile() noexcept;
[[gnu::weak]] void restart_profile() noexcept;
/// The program ends, or asks: appends to the dump.
[[gnu::weak]] void dump_analysis(os::Output& out) noexcept;

#pragma GCC visibility pop

// -- the analysis half calls, under the analysis lock

/// The node that an address lies in an object of: pooled objects by segment, early objects by the address table. 0 for none.
NodeId node_of(std::uintptr_t address) noexcept;
/// The start of that object; 0 for none.
std::uintptr_t object_of(std::uintptr_t address) noexcept;
NodeView view(NodeId id) noexcept;
/// Where the function begins that the node's chain ends in; 0 where no unwind table tells.
std::uintptr_t function_of(NodeId id) noexcept;
/// Objects that were looked up so far, in leases that are used up.
std::uint64_t looked_up() noexcept;
/// The largest id in use.
NodeId last_node() noexcept;
/// From now on b's objects come from a's pool. Of different size classes: all of theirs from a pool of mixed sizes.
void unite(NodeId a, NodeId b, Why why) noexcept;
/// Adaptive switch: gives this node, and those united with it, a pool of its own.
void divide_from_size_class(NodeId id) noexcept;
/// Back to the pool of the size class.
void fold_back(NodeId id) noexcept;

/// How full the pool is that a node has for itself: segments in use, objects out of them, objects they have room for. Looks at
/// every segment: O(segments of all pools), for `nodes` at once, whose rows are zero before.
struct Fullness {
  std::uint32_t segments;
  std::uint64_t live, room;
};
void survey_pools(Fullness* row_of_node, NodeId nodes) noexcept;

/// Which objects of different size classes may share a pool.
Mixing mixing() noexcept;

/// Zeroed memory that is never released; null when the system refuses. Not synchronised: under the analysis lock.
std::byte* analysis_memory(std::size_t bytes) noexcept;
/// The program has shut itself in, or is about to: its filter may end it for what it does not call itself. So the kernel is not asked
/// any more, which counts as a no, and code is not written to.
inline constinit Atomic<bool> is_shut_in{false};
/// Copies `bytes` from an address that may be anything; false when not all of it can be read. Never faults.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) noexcept;
/// The same for a few of them, `bytes` each, by one call of the kernel.
struct Read {
  static constexpr unsigned kMax = 8;
  std::uintptr_t from;
  void* to;
};
bool read_memory(const Read* reads, unsigned count, std::size_t bytes) noexcept;

}  // namespace mortise::affinity
