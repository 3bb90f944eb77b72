// A plan: what an earlier run found, followed from the first object on, with no analysis.
//
//   mortise-affinity-plan 1
//   module 1 9f3a…c2 /usr/bin/lua5.4                                    number, build id, where it was
//   node class=2 bytes=24 objects=5000 heat=17 pool=3 chain=1+4f3,1+88a  pool 0: its size class's; addresses are module+offset,
//   pair 1 2 40                                                         in hexadecimal, malloc's caller first
//
// Addresses are those of the file, so a plan holds wherever modules are loaded, and for no other build: a module of the same
// path with another build id refuses the whole plan, with one line, and so does the program itself wherever it lies; other modules may
// have one name in two folders. A chain that is the beginning of a longer one belongs to a wrapper. `mortise affinity --plan` writes
// plans and merges runs into them.
//
// Not synchronised: under the analysis lock. No malloc; the file is copied, since it may be cut while the program runs. O(1) a question
// after the first.
#pragma once

#include "affinity/observe/modules.hpp"
#include "affinity/seam.hpp"

namespace mortise::affinity {

class Plan {
 public:
  static constexpr unsigned kModulesMax = 256, kNodesOfPlanMax = kNodesMax;
  static constexpr std::size_t kBuildIdBytes = 32, kFileBytesMax = 16 << 20;

  /// Reads `path`. False, after one line on standard error, if it is no plan. `path` must stay.
  bool load(const char* path) noexcept;
  /// The same from memory that stays.
  bool read(const char* text, std::size_t length, const char* path) noexcept;
  bool is_followed() const noexcept { return keys_ && !refused_; }
  /// What the plan says of a chain of return addresses.
  PlannedWay ask(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept;
  /// Tells which node was made for what was asked. Nodes that share a pool are joined with the first.
  void made(NodeId id, const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept;
  /// Modules between these addresses are gone.
  void forget(std::uintptr_t first, std::uintptr_t last) noexcept;
  std::uint32_t nodes() const noexcept { return node_count_; }

 private:
  struct PlanModule {
    std::uint8_t build_id[kBuildIdBytes];
    std::uint8_t build_id_bytes;
    std::uint32_t path, path_bytes;  // in the text
  };
  struct PlanNode {
    std::uint32_t pool;
  };
  struct Key {
    std::uint64_t hash;  // 0: empty
    std::uint32_t node;  // 0: the beginning of a longer chain
  };
  struct Loaded {
    std::uintptr_t first, last, bias;
    std::uint32_t module;  // of the plan; 0: not in it
  };

  bool parse_module(const char*& at, const char* end) noexcept;
  bool parse_node(const char*& at, const char* end) noexcept;
  void insert(std::uint64_t hash, std::uint32_t node) noexcept;
  const Key* find(std::uint64_t hash) const noexcept;
  bool hash_of(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class, std::uint64_t& hash) noexcept;
  const Loaded* loaded_at(std::uintptr_t address) noexcept;
  std::uint32_t recognise(const Module& m) noexcept;
  bool is_other_build(const PlanModule& p, const char* path, bool is_program) const noexcept;
  void refuse(const char* path) noexcept;

  static constexpr unsigned kKeySlots = 1u << 17, kLoadedMax = 128;
  const char* text_ = nullptr;
  const char* path_ = nullptr;
  Key* keys_ = nullptr;
  PlanModule* modules_ = nullptr;
  PlanNode* planned_ = nullptr;
  NodeId* first_of_pool_ = nullptr;
  std::uint32_t module_count_ = 0, node_count_ = 0, key_count_ = 0, loaded_count_ = 0;
  Loaded loaded_[kLoadedMax] = {};
  bool refused_ = false;
};

}  // namespace mortise::affinity
