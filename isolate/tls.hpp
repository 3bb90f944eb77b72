// tls.hpp: thread-local storage and the thread control block of an isolated thread.
#pragma once

#include "thread.hpp"

namespace mortise::isolate {

/// Gives `t`, which has its stack, a fresh TLS block and descriptor in shared memory, freeing the one the record had before. False: no
/// memory.
bool make_tls(Thread& t) noexcept;

/// First values of static thread-local storage `below` each descriptor but the leader's, which glibc knows: of a library that was
/// loaded just now.
void set_tls_of_threads(std::size_t below, const void* image, std::size_t image_bytes, std::size_t bytes) noexcept;
void reset_tls_lock() noexcept;

/// In the new thread, first thing: kernel ids, restartable sequences and the robust list of its own descriptor.
void adopt_tls(Thread& t) noexcept;

/// Restartable sequences of the calling thread off and on. The kernel writes to the registered area whenever it moves
/// the thread; it must not while that page is being re-mapped, nor may a clone inherit it.
void rseq_off() noexcept;
void rseq_on() noexcept;

int& tid_field(void* tcb) noexcept;
std::atomic_ref<int> cancel_field(void* tcb) noexcept;
void* robust_head_of(void* tcb) noexcept;
void empty_robust_list(void* tcb) noexcept;

}  // namespace mortise::isolate
