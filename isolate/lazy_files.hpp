// lazy_files.hpp: large private writable mappings of files, which most programs only read.
//
// A private mapping that several threads write must become shared memory; copying it all at once costs a nanosecond a
// byte, and programs that map their input "writable, private" never write it. So such a mapping stays a mapping of its
// file, read-only, in every address space, and a block of it is turned into shared memory by the first write to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "maps.hpp"

namespace mortise::isolate {

class Lock;

/// Below this a private mapping is copied at once: cheaper than a rendezvous, and the kernel may write to it too.
inline constexpr std::size_t kLazyLeast = 1u << 20;

/// What is copied at once when it is first written; such blocks begin at multiples.
inline constexpr std::size_t kLazyBlock = 2u << 20;

/// Whether there are any. Cheap.
bool has_lazy_files() noexcept;

/// Whether `address` is in one.
bool has_lazy_file(std::uintptr_t address) noexcept;

/// Whether this mapping, found when the runtime arms, is to stay with its file for now.
bool is_lazy_file(const Mapping& m) noexcept;

/// Makes [low, high), mapped privately from a file in the caller, read-only and remembers it.
bool adopt_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept;

/// mprotect of the same with PROT_WRITE: to be run as well it must be memory, for what is read only until it is written would lack the
/// right to run; then it is never without that right. 0 or -errno.
long open_to_writing(std::uintptr_t low, std::uintptr_t high, int protection) noexcept;

/// Blocks already written before the runtime armed; called once afterwards, on the ordinary stack.
void promote_written_blocks() noexcept;

/// On a write fault at `address`: makes its block shared memory everywhere. True when the access may be tried again.
bool promote_on_write(std::uintptr_t address) noexcept;

/// The same of all blocks of [low, high), which is one such mapping, with these rights. False: there is no room for some.
bool promote_all(std::uintptr_t low, std::uintptr_t high, int protection) noexcept;

/// Whether there is room for what forget_lazy_file() there may leave.
bool divide_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Forgets what lies in [low, high), before it is unmapped.
void forget_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept;

Lock& lazy_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
