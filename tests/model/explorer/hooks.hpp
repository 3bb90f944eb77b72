// What the explorer's version of sync/atomics.hpp calls. Outside a logical thread (set-up, finish, static objects) each
// works on the word itself at once.
#pragma once

#include <csetjmp>

#include "explorer/machine.hpp"

namespace mortise::model::hooks {

/// Carries out `op` when the search lets this thread go on; its result and success are filled in.
void perform(Operation& op);
void construct(const void* address, unsigned bytes, Value value);
void fence(Order order, std::source_location where);
/// Ends one iteration of a wait loop.
void relax(std::source_location where);
void plain_access(const void* address, bool write, std::source_location where);

/// A step without effect: here the core may switch to another thread.
void pause(std::source_location where);
/// Another one for each logical thread.
const void* thread();
int core();
/// This thread runs on `core` from now on. Threads of one core exchange all they know at every switch. Outside a logical thread: what
/// follows is done there.
void run_on_core(int core);
/// A restartable sequence of the core that the thread runs on: from here on, a step of another thread of that core, or
/// a restarting barrier, makes this thread go on at `restart` instead of at its next step.
void section_begin(std::jmp_buf* restart);
void section_end();
/// A membarrier: a full fence on all threads.
void barrier(std::source_location where);
/// A membarrier that aborts every restartable sequence in progress.
void restart_sections(std::source_location where);

}  // namespace mortise::model::hooks
