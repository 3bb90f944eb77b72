// What a program that embeds a heap does with a fault when it has no wish of its own: one line on standard error, and abort.
//
// Include it in one source file of the program; a definition of `mortise::report` elsewhere takes its place.
#pragma once

#include <cstdlib>

#include "mortise/core/fault.hpp"
#include "mortise/os/console.hpp"

namespace mortise {

[[noreturn, gnu::weak]] void report(Fault fault, Block block) noexcept {
  os::Line<> line;
  line.text("mortise fault=").text(name_of(fault)).text(" ptr=").pointer(block.ptr);
  if (!block.is_unsized()) line.text(" size=").number(block.size);
  line.text(" hint=\"").text(hint_of(fault)).text("\"").flush();
  std::abort();
}

}  // namespace mortise
