// unbroken.hpp: short sections that no handler of the program may interrupt, without system calls.
//
//   section      deep = 1 ................................... deep = 0; put off? the mask as it was
//   signal               deliver (actions.cpp): blocks all,                 deliver: the handler runs
//                        sends itself the signal again
//
// One of those that queue would come behind what has been queued meanwhile. It is kept instead, and at the end the thread sends itself the
// runtime's signal, whose handler is the program's then. Of several numbers at once each is, and the last to be put off, which came first,
// is the first to be handled: another such signal brings the next one into its handler, as the kernel stacks them.
//
// Blocking signals takes two system calls, longer than most of what is done inside. Here only a signal that really comes pays.
#pragma once

#include <csignal>

struct ucontext_t;

namespace mortise::isolate {

/// While one lives the program's handlers wait. Faults and tasks of a rendezvous still come.
class Unbroken {
 public:
  Unbroken() noexcept;
  ~Unbroken();
  Unbroken(const Unbroken&) = delete;
};

/// In a handler, before the program's: whether the signal was put off to the end of the section that it came into.
bool put_off(int signal, const siginfo_t& info, ucontext_t& context) noexcept;

/// In the handler of the runtime's signal, the last thing: what was kept.
void handle_put_off(ucontext_t& context);

}  // namespace mortise::isolate
