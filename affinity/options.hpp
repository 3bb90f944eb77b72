// How affinity pools are to work: the settings affinity_* of MORTISE_CONF.
#pragma once

#include <cstddef>
#include <cstdint>

#include "affinity/observe/wrapper.hpp"
#include "mortise/core/core.hpp"

namespace mortise::affinity {

/// What an object's pool is chosen by.
enum class Mode : std::uint8_t {
  off,    ///< no pools: everything comes from the heap below
  size,   ///< the size class alone: the control
  site,   ///< malloc's return address and the size class
  chain,  ///< the chain of calls and the size class
  graph,  ///< the same, with the storage shape graph: pools divided and united as it says
};

/// Which objects of different size classes share a pool of mixed sizes, by `graph`.
enum class Mixing : std::uint8_t {
  off,
  parts,   ///< an object and its part: allocated in turn and linked
  chains,  ///< these, and all that one chain of calls asks for, whatever its size
};

struct Options {
  Mode mode = Mode::graph;
  bool overhead_only = false;             ///< look everything up, then take the object from the heap below
  std::uint32_t misses_before_look = 33;  ///< of the heap below, in a size class that is not looked up yet
  std::uint32_t objects_before_pool = 33;  ///< the first after the last sample
  std::uint32_t object_bytes_max = 128;
  WrapperRule wrappers = WrapperRule::strict;
  Mixing mixing = Mixing::off;
  HugePages huge_pages = HugePages::automatic;  ///< of pools; automatic: as of the heap
  bool patches_sites = false;             ///< write the pool into the program's calls of malloc
  void* (*malloc_in_pool)(std::size_t, std::uint32_t) noexcept = nullptr;  ///< what such calls lead to
  char dump[256] = {};  ///< file to which what was found is written at the end; %p in it is the process id
  char plan[256] = {};  ///< plan file to follow
  std::uint32_t samples_per_second = 0;  ///< of memory accesses, for a plan; 0: none

  bool set_mode(const char* text, std::size_t length) noexcept;
  bool set_mixing(const char* text, std::size_t length) noexcept;
  bool set_wrappers(const char* text, std::size_t length) noexcept;
};
const char* name_of(Mode mode) noexcept;

}  // namespace mortise::affinity
