// signal_marks.hpp: a signal that is passed on travels in the name of whoever sent it.
#pragma once

#include <csignal>
#include <cstdint>

namespace mortise::isolate {

constexpr std::uint64_t bit_of(int signal) noexcept { return 1ull << (signal - 1); }

/// Of these one of a number is pending at most, and comes where there is no room as well.
inline constexpr std::uint64_t kOldKind = (1ull << 31) - 1;

/// A signal that is about to be sent on, and one that was passed on here, as it was sent.
void mark_as_passed_on(siginfo_t& info) noexcept;
void unmark_passed_on(siginfo_t& info) noexcept;
bool is_passed_on(const siginfo_t& info) noexcept;

/// As it was sent, as far as somebody else may send it to main.
void unmark_for_leader(siginfo_t& info) noexcept;

}  // namespace mortise::isolate
