// stack.hpp: stacks of threads, in memory that every thread sees: a pointer to a local variable means the same
// everywhere.
#pragma once

#include <pthread.h>

#include "thread.hpp"

namespace mortise::isolate {

/// In main, before the first thread: whether stacks of this program are executable.
void look_at_own_stack() noexcept;

/// Gives `t` a stack as the attributes ask: the program's own, the one the record had before, or a new one. 0 or an error.
int make_stack(Thread& t, const pthread_attr_t* attributes) noexcept;

/// In the new thread: makes the lowest pages inaccessible, in its own address space only, and those of its creator's stack accessible.
void guard_stack(const Thread& t) noexcept;

/// In a thread that ends: gives back what it has used deep down of a stack that is kept for the next one.
void drop_deep_stack(const Thread& t) noexcept;

inline std::byte* stack_top(const Thread& t) noexcept { return t.stack.low + t.stack.bytes; }

}  // namespace mortise::isolate
