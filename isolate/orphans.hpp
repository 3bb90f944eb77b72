// orphans.hpp: children that outlive the thread which started them.
//
// For the kernel a child belongs to the thread's process, and when that ends, to the first process of the system. Programs hand the number
// of a child on, and end the thread. So while such a thread ends main takes orphans in (PR_SET_CHILD_SUBREAPER): they become its children,
// as they would be with ordinary threads.
//
//   thread     has children: asks ---> leader's process: takes in; ends --> the kernel hands them on ---> the helper reaps it
//   watchdog   the last such thread is reaped: takes in no more, for a daemon that the program's children leave behind is not its own
#pragma once

#include <cstdint>

namespace mortise::isolate {

struct Thread;

/// In a thread that is about to end.
void hand_children_on(Thread& t) noexcept;

/// In the helper, when it has been reaped.
void children_are_handed_on(Thread& t) noexcept;

/// In the watchdog, after each poke.
void end_taking_in() noexcept;

/// How often children have been handed on; and whether they have since, which is waited for where it is being done.
std::uint32_t times_handed_on() noexcept;
bool are_handed_on_since(std::uint32_t before) noexcept;

/// PR_SET_CHILD_SUBREAPER and PR_GET_CHILD_SUBREAPER of the program, in any thread. The kernel's answer.
long wish_to_take_in(bool wanted) noexcept;
long ask_to_take_in(int* wanted) noexcept;

/// In the child of a fork: nobody is ending.
void forget_orphans() noexcept;

}  // namespace mortise::isolate
