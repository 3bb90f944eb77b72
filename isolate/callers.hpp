// callers.hpp: whether memory is asked for by the allocator or by the program.
//
// Allocators reserve memory (PROT_NONE) far ahead and open it piece by piece, in every arena of every thread; nobody waits for a fault
// there. To take the rights of such a reservation everywhere, and to give them back for each piece, would cost more than all the rest.
#pragma once

namespace mortise::isolate {

/// Before the first thread: which library has malloc.
void find_allocator() noexcept;

/// Whether the code at `address` is libc's, or of the library that the program has malloc from. Our own allocators ask by a call of theirs.
bool is_allocator(const void* address) noexcept;

}  // namespace mortise::isolate
