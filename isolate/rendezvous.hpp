// rendezvous.hpp: doing one thing in every address space.
//
// The caller publishes a task and signals all other threads with a signal that glibc keeps for itself (33: programs can
// neither block nor handle it). Each runs the task in the handler and counts itself; the caller waits for all. A thread
// that is just being made runs the task before its first line of the program.
#pragma once

namespace mortise::isolate {

class Lock;

struct Thread;

/// Runs `task(argument)` in every address space, the caller's last, and returns when all have. One at a time. What belongs into the
/// tables once all have it, the caller's own run notes: between two rendezvous a child may be forked (tables.hpp).
void everywhere(void (*task)(void*), void* argument) noexcept;

/// Takes the handler; before the first thread.
void install_rendezvous() noexcept;

/// In a new thread, before the program's code: runs a task it may have missed while it was being made.
void catch_up_rendezvous(Thread& t) noexcept;

Lock& publishing_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
