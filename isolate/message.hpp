// message.hpp: what the runtime says, always in one line on standard error.
#pragma once

namespace mortise::isolate {

/// The exit status of a program that cannot be isolated (EX_CONFIG of sysexits.h).
inline constexpr int kExitUnsupported = 78;

/// Prints "mortise threads: <text>\n" in one write. Understands %s, %d, %x (hexadecimal, long) and nothing else.
/// Allocates nothing and takes no lock, so it may be called anywhere, also from a signal handler.
void say(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// Says why the program cannot be isolated and ends it with kExitUnsupported, unless MORTISE_THREADS_ANYWAY is set:
/// then it says so and returns, and the program goes on at its own risk.
void refuse(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// As `say`, only with MORTISE_VERBOSE=1.
void explain(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// A setting from the environment, or null. Ignores the environment of privileged (AT_SECURE) programs.
const char* setting(const char* name) noexcept;

/// A setting that is a whole number; says so in one line and gives `fallback` when it is not.
long setting_number(const char* name, long fallback, long least, long most) noexcept;

}  // namespace mortise::isolate
