// wiped.hpp: memory that a forked child finds empty (madvise, MADV_WIPEONFORK).
//
// Generators of random numbers keep a mark there, by which they notice that they have been copied. The kernel empties private memory
// only, and for it each thread is a child; so it is not told, and the child does it by itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

/// Before the first thread: somebody asks the kernel for it. At the first thread: what the kernel was asked for is found.
void expect_wiped() noexcept;
void find_wiped() noexcept;

/// False: the table is full. Thread-safe.
bool note_wiped(std::uintptr_t low, std::size_t bytes) noexcept;

/// Whether there is room for what forget_wiped() there may leave. Thread-safe.
bool divide_wiped(std::uintptr_t low, std::size_t bytes) noexcept;

/// It is unmapped, or is to be kept (MADV_KEEPONFORK). Thread-safe; nearly always there is none, and nothing to do.
void forget_wiped(std::uintptr_t low, std::size_t bytes) noexcept;

/// In the child, before anything of the program runs.
void wipe() noexcept;

Lock& wiped_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
