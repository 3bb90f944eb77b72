// libc_locks.hpp: the sleeping part of the locks that libc uses inside itself (streams, malloc arenas, time zones ...).
// Their fast part is compiled into libc everywhere and works on shared memory as it is; only the futex must be shared.
#pragma once

namespace mortise::isolate {

void libc_lock_wait(int* word) noexcept;
void libc_lock_wake(int* word) noexcept;

}  // namespace mortise::isolate
