// fault.hpp: page faults that are ours to answer, and the program's own handler for those that are not.
#pragma once

struct sigaction;

namespace mortise::isolate {

class Lock;

/// Takes over SIGSEGV; keeps what the program had installed.
void install_fault_handler() noexcept;

/// What sigaction(SIGSEGV) does after that: the program's action is kept aside.
void exchange_program_fault_action(const struct sigaction* action, struct sigaction* old) noexcept;

/// Whether the program, or its allocator, handles SIGSEGV itself.
bool faults_are_handled() noexcept;

Lock& fault_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
