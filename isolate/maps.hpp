// maps.hpp: reading /proc/self/maps without allocating.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

struct Mapping {
  std::uintptr_t low, high;
  bool read, write, execute, shared;
  std::uint64_t offset;  // in the file
  std::uint64_t inode;   // 0: not a file
  const char* name;      // path, "[heap]", "[stack]", ... or ""
  int protection() const noexcept;
  std::size_t bytes() const noexcept { return high - low; }
};

/// A snapshot of the calling process's mappings, in shared pages of its own that it gives back at the end (shared, so
/// that the kernel never joins them with the private mappings they list).
class Maps {
 public:
  Maps() noexcept;
  ~Maps();
  Maps(const Maps&) = delete;

  /// Reads the next mapping; false at the end.
  bool next(Mapping& out) noexcept;
  bool complete() const noexcept { return complete_; }

 private:
  char* text_ = nullptr;
  char* at_ = nullptr;
  bool complete_ = false;
};

/// Opens /proc/self/pagemap: -errno where that fails. To a program that gave up its privileges (a server started as root)
/// its own file is closed; for the moment of opening it the program says that it may be looked at.
long open_pagemap() noexcept;

/// Whether anything is mapped at that page.
bool is_page_here(std::uintptr_t address) noexcept;

/// Whether anything lies in [low, low + bytes) in the calling address space.
bool is_mapped_here(std::uintptr_t low, std::size_t bytes) noexcept;

}  // namespace mortise::isolate
