// A signal between any two instructions: some work is done again and again, and a handler runs once in each, an instruction later each
// time.
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>

namespace mortise::test {

#if defined(__x86_64__)

/// Runs begin(), then work() with handler() at its first instruction; then begin() and work() with handler() at its second; and so on,
/// until work() ends before its handler has run. Returns how many instructions that were. `work` and what it calls must not be what the
/// processor traps on by itself; the trap flag is off while the handler runs.
class EachInstruction {
 public:
  template <class Begin, class Work> static unsigned of(Begin&& begin, Work&& work, std::function<void()> handler) {
    self() = {.handler = std::move(handler)};
    struct sigaction trap {}, before {};
    trap.sa_sigaction = on_trap;
    trap.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &trap, &before);
    unsigned at = 0;
    for (;; ++at) {
      begin();
      self().left = at + 1;
      set_trap_flag();
      work();
      clear_trap_flag();
      if (self().left) break;
    }
    sigaction(SIGTRAP, &before, nullptr);
    return at;
  }

 private:
  struct State {
    std::function<void()> handler;
    unsigned left = 0;
  };
  static State& self() {
    static State state;
    return state;
  }
  static void on_trap(int, siginfo_t*, void* context) {
    if (--self().left) return;
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~std::int64_t{kTrapFlag};
    self().handler();
  }
  static constexpr int kTrapFlag = 0x100;
  [[gnu::always_inline]] static void set_trap_flag() { asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n" ::: "cc", "memory"); }
  [[gnu::always_inline]] static void clear_trap_flag() { asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq\n" ::: "cc", "memory"); }
};

#endif

}  // namespace mortise::test
