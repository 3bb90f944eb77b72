// The Chooser that watches the program: which chain of calls an allocation comes from, and with it, which pool.
//
//   choose ── way of (return address, size class)? ── counted: fewer than 16 objects, not looked at yet
//                │                                 ├─ wrapper: up one frame, the next return address
//                │                                 └─ node: the chain ends here ── 33 objects? ── pool
//                └─ object 16: is the function behind the address a wrapper? (wrapper.hpp) by which rule is its frame left? (cfi.hpp)
//
// Only misses come here, under one lock: a thread knows the ways that led to a pool (call_chain.hpp). Most sites allocate a few
// objects only, so nothing is analysed before the sixteenth. And most of the others' objects come and go, which the places tell
// that are given out again: these are not analysed, and have no pool of their own.
//
// And whether that pays: where a size class is one group's, or its objects hardly stay, they come from the heap below (class_use.hpp).
//
// Source: [Wang10], with analysis deferred. Progress: blocking.
#pragma once

#include "affinity/observe/call_sites.hpp"
#include "affinity/observe/class_use.hpp"
#include "affinity/observe/nodes.hpp"
#include "affinity/options.hpp"
#include "mortise/os/console.hpp"
#include "mortise/policy/chooser.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise::affinity {

/// What has been done, for the dump.
struct Counts {
  std::uint64_t calls, judged, rules_known, rules_unknown, nodes_refused, observed, climbs_failed, unloads, closed, opened, leased;
  std::uint64_t passing, staying;  // groups that went to the pool of their class because their objects come and go, and came back
};

class Observer {
 public:
  using OptionsType = Options;
  static constexpr const char* kName = "Observer";
  static constexpr bool kReadsCalls = true;
  static constexpr unsigned kObjectsBeforeAnalysis = 16;
  static constexpr unsigned kFirstSample = kObjectsBeforeAnalysis + Node::kNotedBeforeSample, kLastSample = 32;
  static constexpr unsigned kLevelsMax = 6;

  /// All zero until then, as far as memory goes (mortise/data/preset.hpp).
  bool start() noexcept {
    new_epoch();  // no thread's
    return true;
  }
  /// Before any thread but the first runs. Pools are closed (mode off) until then.
  void configure(const Options& options) noexcept;
  const Options& options() const noexcept { return options_; }

  MORTISE_HOT std::uint32_t epoch() const noexcept { return epoch_.load(Order::relaxed); }
  std::size_t object_bytes_max() const noexcept { return options_.mode == Mode::off ? 0 : options_.object_bytes_max; }
  /// The end of the calling thread's stack: its thread block, or what the loader noted for the first thread.
  static std::uintptr_t stack_end() noexcept;

  void choose(const CallSite& site, std::size_t size, CallChoice& choice) noexcept;
  void gave(const CallSite& site, CallChoice& choice, void* object, std::size_t size) noexcept;
  void grew(const Pool& pool, std::uint32_t segments, const std::byte* object) noexcept;
  void forwarded(const Pool& pool, const std::byte* object) noexcept;
  std::uint32_t renew(Pool& pool, std::uint32_t leased) noexcept;
  bool passed(const CallSite& site, std::size_t size) noexcept;
  bool missed(std::uint32_t size_class) noexcept;

  /// Forgets what lay in modules that are not loaded any more. After each dlclose.
  void code_unloaded() noexcept;
  /// From now on nothing is asked of the kernel.
  static void shut_in() noexcept { is_shut_in.store(true, Order::relaxed); }
  /// Writes what was found, one JSON object a line.
  void dump(os::Output& out) noexcept;

  void lock_all() noexcept {
    hold(lock_);
    if (&hold_profile) hold_profile();
  }
  void unlock_all() noexcept {
    if (&release_profile) release_profile();
    let_go(lock_);
  }
  void reset_after_fork() noexcept {
    if (&restart_profile) restart_profile();
    lock_.reset();
  }

  /// How the layer finds the pool and the start of the object at an address.
  void set_locator(void* layer, PooledObject (*locate)(void*, const std::byte*) noexcept,
                   void (*survey)(void*, void*, PoolSurvey) noexcept) noexcept {
    layer_ = layer;
    locate_ = locate;
    survey_ = survey;
  }

  // -- for the seam, under the lock
  PooledObject pooled(std::uintptr_t address) const noexcept;
  const EarlyObjects& early() const noexcept { return early_; }
  Node* node(NodeId id) noexcept { return id && id <= nodes_.last() ? &nodes_[id] : nullptr; }
  Node& root(NodeId id) noexcept;
  void survey_pools(void* context, PoolSurvey each) noexcept {
    if (survey_) survey_(layer_, context, each);
  }
  NodeId last_node() const noexcept { return nodes_.last(); }
  std::uint64_t looked_up() const noexcept { return counts_.calls + counts_.leased; }
  NodeView view(NodeId id) noexcept;
  std::uintptr_t function_of(NodeId id) noexcept;
  void unite(NodeId a, NodeId b, Why why) noexcept;
  void divide_from_size_class(NodeId id) noexcept;
  void fold_back(NodeId id) noexcept;

 private:
  void look_up(const CallSite& site, std::size_t size, CallChoice& choice) noexcept;
  void patch_site(Way& way, std::uintptr_t address, const Pool& pool) noexcept;
  Growth growth_of(unsigned size_class, bool forwards) noexcept;
  bool moves(Pool& pool, std::uint32_t leased) noexcept;
  void start_again(Node& n) noexcept;
  void begin_anew(unsigned size_class) noexcept;
  Way* way_of(CallKey key) noexcept;
  void decide(Way& way, std::uintptr_t address, const std::uintptr_t* chain, unsigned depth, unsigned size_class) noexcept;
  Caller* caller_of(std::uintptr_t address, std::uint32_t& number) noexcept;
  Caller* judged_caller_of(std::uintptr_t address, std::uint32_t& number) noexcept;
  std::uint16_t known_module(const Module& m) noexcept;
  NodeId node_for(const std::uintptr_t* chain, unsigned depth, unsigned size_class) noexcept;
  void count(Node& n, std::uintptr_t stack_end) noexcept;
  void give_pool(Node& n) noexcept;
  Pool* make_pool(unsigned size_class, NodeId tag) noexcept;
  Pool* make_mixed_pool() noexcept;
  static bool is_mixed(const Node& root) noexcept { return root.pool && root.pool->is_mixed; }
  bool mix(Node& to, Node& from) noexcept;
  Pool* class_pool(unsigned size_class) noexcept;
  bool resume_at(const CallSite& site, const CallChoice& choice, Resume& out) noexcept;
  void forget_gone_modules() noexcept;
  void write_dump(os::Output& out) noexcept;
  void new_epoch() noexcept { epoch_.store(epoch() + 1, Order::release); }

  static constexpr unsigned kClasses = 256;  // sizes up to 4080 bytes
  static constexpr unsigned kFirstWrapperId = kClasses;

  // What a hit reads.
  Atomic<std::uint32_t> epoch_{0};

  FutexLock lock_;
  Options options_{.mode = Mode::off, .misses_before_look = 0, .objects_before_pool = 0, .object_bytes_max = 0};
  void* layer_ = nullptr;
  PooledObject (*locate_)(void*, const std::byte*) noexcept = nullptr;
  void (*survey_)(void*, void*, PoolSurvey) noexcept = nullptr;
  Index ways_by_key_, callers_by_address_, nodes_by_chain_;
  Records<Way, 8, 512> ways_;
  Records<Caller, 6, 1024> callers_;
  Records<Node, 6, kNodesMax / 64> nodes_;
  Records<KnownModule, 4, 64> modules_;
  std::uint32_t idle_ways_ = 0, idle_callers_ = 0;  ///< lists of records that may be used again
  EarlyObjects early_;
  CallSites sites_;
  Pool forwarding_ = {};
  Pool* class_pool_[kClasses] = {};
  ClassUse use_[kClasses] = {};
  SpansMet* spans_met_ = nullptr;  ///< once a pool forwards
  std::uint32_t pools_ = 0;
  std::uint32_t segments_ = 0;  ///< that all pools have taken so far
  std::uint32_t wrapper_ids_ = 0;  ///< given out so far
  NodeId last_counted_ = kNoNode;
  std::uintptr_t last_stack_end_ = 0;
  Counts counts_ = {};
};

}  // namespace mortise::affinity
