// The program's crimes against the heap, and the one function that reports them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/block.hpp"
#include "mortise/core/inline.hpp"

namespace mortise {

/// What the program did. docs/5-faults.md has a paragraph for each.
enum class Fault : std::uint8_t {
  double_free,          ///< a block was released twice
  invalid_free,         ///< the pointer never came from this allocator, or lies inside a block
  free_list_corrupted,  ///< the allocator's own bookkeeping inside freed memory was overwritten
  tail_overwritten,     ///< bytes behind the end of a block were written
  header_overwritten,   ///< bytes before the start of a block were written
  write_after_free,     ///< a released block was written
  size_mismatch,        ///< a sized delete named another size than the block's
  align_mismatch,       ///< an aligned delete named another alignment than the block's
  heap_inconsistent,    ///< an internal check failed; no single crime can be named
};

constexpr const char* name_of(Fault f) {
  switch (f) {
    case Fault::double_free: return "double_free";
    case Fault::invalid_free: return "invalid_free";
    case Fault::free_list_corrupted: return "free_list_corrupted";
    case Fault::tail_overwritten: return "tail_overwritten";
    case Fault::header_overwritten: return "header_overwritten";
    case Fault::write_after_free: return "write_after_free";
    case Fault::size_mismatch: return "size_mismatch";
    case Fault::align_mismatch: return "align_mismatch";
    case Fault::heap_inconsistent: return "heap_inconsistent";
  }
  return "unknown";
}

/// What to do about it, in a few words: the end of the report line.
constexpr const char* hint_of(Fault f) {
  switch (f) {
    case Fault::double_free: return "release each block once; look for two owners";
    case Fault::invalid_free: return "pass the pointer that malloc returned, unchanged and once";
    case Fault::free_list_corrupted: return "a released block was written; look for a stale pointer";
    case Fault::tail_overwritten: return "a write went past the end of this block";
    case Fault::header_overwritten: return "a write went before the start of this block";
    case Fault::write_after_free: return "a stale pointer was written through";
    case Fault::size_mismatch: return "delete as the type that was allocated";
    case Fault::align_mismatch: return "delete with the alignment that was asked for";
    case Fault::heap_inconsistent: return "run on a hardened allocator to find the cause";
  }
  return "";
}

/// Prints one line, `mortise[NAME] fault=... ptr=... size=... hint="..."`, and aborts. Defined once a program or shared object
/// (abi/report.cpp; tests bring their own). Never allocates, takes no lock, async-signal-safe.
[[noreturn]] MORTISE_COLD void report(Fault fault, Block block) noexcept;

}  // namespace mortise
