// The program's crimes against the heap, and the one function that reports them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/block.hpp"
#include "mortise/core/inline.hpp"

namespace mortise {

/// What the program did. docs/5-faults.md has a line for each.
enum class Fault : std::uint8_t {
  double_free,          ///< a block was released twice
  invalid_free,         ///< the pointer never came from this allocator, or lies inside a block
  free_list_corrupted,  ///< the allocator's own bookkeeping inside freed memory was overwritten
  tail_overwritten,     ///< bytes behind the end of a block were written
  header_overwritten,   ///< bytes before the start of a block were written
  write_after_free,     ///< a released block was written
  size_mismatch,        ///< a sized delete named another size than the block's
  use_after_free,       ///< a released block was read or written; the page it lay in forbids both
  out_of_bounds,        ///< an access ran out of its block into a page that forbids it
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
    case Fault::use_after_free: return "use_after_free";
    case Fault::out_of_bounds: return "out_of_bounds";
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
    case Fault::invalid_free: return "pass a pointer as it was allocated, to the heap it came from, once";
    case Fault::free_list_corrupted: return "a released block was written; look for a stale pointer";
    case Fault::tail_overwritten: return "a write went past the end of this block";
    case Fault::header_overwritten: return "a write went before the start of this block";
    case Fault::write_after_free: return "a stale pointer was written through";
    case Fault::use_after_free: return "a stale pointer was used";
    case Fault::out_of_bounds: return "an index or a length is wrong";
    case Fault::size_mismatch: return "delete as the type that was allocated";
    case Fault::align_mismatch: return "delete with the alignment that was asked for";
    case Fault::heap_inconsistent: return "run on a hardened allocator to find the cause";
  }
  return "";
}

/// What is known when a fault is seen. A place is a return address in the program; null where it is not known.
struct Crime {
  Fault fault;
  Block block;
  const void* allocated_at = nullptr;  ///< who allocated the block
  const void* freed_at = nullptr;      ///< who released it, the first time
  const void* seen_at = nullptr;       ///< the call during which it was seen
};

/// Prints one line, `mortise[NAME] fault=... ptr=... size=... hint="..."`, and aborts. Defined once a program or shared object
/// (abi/report.cpp; tests bring their own). Never allocates, takes no lock, async-signal-safe.
[[noreturn]] MORTISE_COLD void report(Fault fault, Block block) noexcept;

/// Prints the same line with the places that are known. Never allocates, takes no lock, async-signal-safe.
MORTISE_COLD void tell(const Crime& crime) noexcept;

/// Whether whoever runs the program wants it to go on after this crime; the line is printed unless they want silence. What the
/// policy on_fault::Configured asks.
MORTISE_COLD bool goes_on_after(const Crime& crime) noexcept;

/// The return address of the function that this is inlined into. The hit paths of guards are inlined into malloc and free, so
/// there it is the program's place; elsewhere it is whoever called the heap.
MORTISE_HOT const void* call_site() noexcept { return __builtin_return_address(0); }

}  // namespace mortise
