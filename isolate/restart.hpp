// restart.hpp: the runtime's own signals do not end the program's system calls.
#pragma once

struct ucontext_t;

namespace mortise::isolate {

/// In the handler of a runtime signal, before it returns: where the signal ended a call that the kernel does not take up
/// again by itself, has it made again, with what is left of its time.
void restart_system_call(ucontext_t& context) noexcept;

/// The reverse, for a signal of the program's without SA_RESTART that came by a handler of ours with it: a call that the
/// kernel is about to make again answers EINTR.
void end_system_call(ucontext_t& context) noexcept;

}  // namespace mortise::isolate
