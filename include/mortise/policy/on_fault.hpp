// The OnFault slot: a guard has seen a crime. What now?
//
// An answer that returns lets the guard go on: it then does what harms least, which its own banner states (a block that is released
// twice is left where it is, for instance). Corruption that leaves no safe way on never asks: MORTISE_CHECK ends the program.
#pragma once

#include <concepts>

#include "mortise/core/fault.hpp"

namespace mortise {

/// `answer(crime)` ends the program, or returns to go on.
template <class P>
concept OnFaultPolicy = requires(const Crime& crime) {
  { P::answer(crime) } noexcept -> std::same_as<void>;
  { P::kName } -> std::convertible_to<const char*>;
};

namespace on_fault {

/// One line, then abort.
struct Abort {
  static constexpr const char* kName = "Abort";
  [[noreturn]] MORTISE_COLD static void answer(const Crime& crime) noexcept {
    tell(crime);
    __builtin_abort();
  }
};

/// One line, then on.
struct ReportAndGoOn {
  static constexpr const char* kName = "ReportAndGoOn";
  MORTISE_COLD static void answer(const Crime& crime) noexcept { tell(crime); }
};

/// `kFunction(crime)` decides; it may run inside malloc or free and in any thread, so it must not allocate. For C++ only: a function
/// of the program's is in no catalogue.
template <void (*kFunction)(const Crime&) noexcept> struct CallBack {
  static constexpr const char* kName{"CallBack"};
  MORTISE_COLD static void answer(const Crime& crime) noexcept { kFunction(crime); }
};

/// As whoever runs the program has set it (`on_fault`, `exceptions` of MORTISE_CONF): abort unless told otherwise.
struct Configured {
  static constexpr const char* kName = "Configured";
  MORTISE_COLD static void answer(const Crime& crime) noexcept {
    if (!goes_on_after(crime)) __builtin_abort();
  }
};

}  // namespace on_fault
}  // namespace mortise
