// What a program that embeds a heap does with a fault when it has no wish of its own: one line on standard error, and abort.
//
// Include it in one source file of the program; a definition of `mortise::report` elsewhere takes its place.
#pragma once

#include <cstdlib>

#include "mortise/core/fault.hpp"
#include "mortise/os/console.hpp"

namespace mortise {

[[gnu::weak]] void tell(const Crime& crime) noexcept {
  os::Line<> line;
  line.text("mortise fault=").text(name_of(crime.fault)).text(" ptr=").pointer(crime.block.ptr);
  if (!crime.block.is_unsized()) line.text(" size=").number(crime.block.size);
  if (crime.allocated_at) line.text(" allocated_at=").pointer(crime.allocated_at);
  if (crime.freed_at) line.text(" freed_at=").pointer(crime.freed_at);
  if (crime.seen_at) line.text(" seen_at=").pointer(crime.seen_at);
  line.text(" hint=\"").text(hint_of(crime.fault)).text("\"").flush();
}

[[noreturn, gnu::weak]] void report(Fault fault, Block block) noexcept {
  tell({.fault = fault, .block = block});
  std::abort();
}

[[gnu::weak]] bool goes_on_after(const Crime& crime) noexcept {
  tell(crime);
  return false;
}

}  // namespace mortise
