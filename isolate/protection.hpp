// protection.hpp: what protection shared memory has, for the program as a whole.
//
// mprotect changes one address space. The record here says what the program asked for. Rights that are given, and those that are taken
// from memory that may still be read, are changed in all others before the call returns. Of memory that nobody may touch any more
// (PROT_NONE), others lose their rights only where somebody handles SIGSEGV and could tell.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

/// mprotect of any memory; recorded when it is shared. 0 or -errno.
long protect(std::uintptr_t low, std::size_t bytes, int protection) noexcept;

/// The rights that fresh memory is asked for with. A reservation (PROT_NONE) stays accessible unless somebody could tell: what comes
/// next is an mprotect of the part in use, which then costs nothing. 0 or -errno.
long protect_fresh(std::uintptr_t low, std::size_t bytes, int protection) noexcept;

/// What is recorded for `address`.
int protection_of(std::uintptr_t address) noexcept;

/// MADV_GUARD_INSTALL and MADV_GUARD_REMOVE of shared memory, whose marks the kernel keeps for one address space. 0 or -errno.
long install_guards(std::uintptr_t low, std::size_t bytes) noexcept;
long remove_guards(std::uintptr_t low, std::size_t bytes) noexcept;

/// Puts a range of shared memory back to readable and writable in all address spaces, before it is given away or taken anew.
void unprotect(std::uintptr_t low, std::size_t bytes) noexcept;

/// Records what a range has in every address space, without changing anything. False: the table is full.
bool note_protection(std::uintptr_t low, std::uintptr_t high, int protection) noexcept;

/// On a fault at `address`: brings this address space up to the record. True when the access may be tried again.
bool catch_up_protection(std::uintptr_t address, bool write, bool execute) noexcept;

/// Whether code may be run somewhere in [low, high). Without the lock: for a child that a fork has just made.
bool holds_code(std::uintptr_t low, std::uintptr_t high) noexcept;

/// After a fork gave the child plain copies: applies what is recorded.
void apply_recorded_protections() noexcept;

/// Somebody handles SIGSEGV from now on, and could tell: rights that were taken before go in all address spaces.
void apply_everywhere() noexcept;

Lock& protection_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
