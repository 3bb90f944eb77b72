// protection.hpp: what protection shared memory has, for the program as a whole.
//
// mprotect changes one address space. The record here says what the program asked for; another address space that still
// has less catches up when it faults. One that still has more keeps it: only a program that watches its own protection
// faults could tell, and such a program is told that it cannot be isolated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

/// mprotect of any memory; recorded when it is shared. 0 or -errno.
long protect(std::uintptr_t low, std::size_t bytes, int protection) noexcept;

/// Puts a range of shared memory back to readable and writable in all address spaces, before it is given away or taken anew.
void unprotect(std::uintptr_t low, std::size_t bytes) noexcept;

/// Records what a range has without changing anything (for ranges converted when the runtime arms).
void note_protection(std::uintptr_t low, std::uintptr_t high, int protection) noexcept;

/// On a fault at `address`: brings this address space up to the record. True when the access may be tried again.
bool catch_up_protection(std::uintptr_t address, bool write, bool execute) noexcept;

/// After a fork gave the child plain copies: applies what is recorded.
void apply_recorded_protections() noexcept;

Lock& protection_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
