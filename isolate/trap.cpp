// trap.cpp: a seccomp filter that lets everything pass but futex operations with the private flag; those raise SIGSYS,
// and the handler makes the same call in its shared form.
//
// OpenMP's libgomp is the well-known case. A filter outlives exec while its handler does not, so a program started
// later needs this library too (it keeps LD_PRELOAD, and then installs the handler at its start).
#include "trap.hpp"

#include <csignal>
#include <cstddef>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "masks.hpp"
#include "message.hpp"
#include "raw.hpp"
#include "signals.hpp"

namespace mortise::isolate {
namespace {

void on_trap(int, siginfo_t*, void* context) {
  greg_t* r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  r[REG_RAX] = raw_syscall(SYS_futex, r[REG_RDI], r[REG_RSI] & ~FUTEX_PRIVATE_FLAG, r[REG_RDX], r[REG_R10], r[REG_R8],
                           r[REG_R9]);
}

bool wanted() noexcept {
  const char* wish = setting("MORTISE_THREADS_TRAP");
  return wish && std::strcmp(wish, "1") == 0;
}

void install_handler() noexcept {
  KernelAction action{};
  action.handler = reinterpret_cast<void*>(&on_trap);
  action.flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  set_action(SIGSYS, &action, nullptr);
}

/// A program started by one with the filter finds it in force, and must answer from its first futex on. That may be before libc has its
/// environment.
__attribute__((constructor)) void answer_inherited_filter(int, char**, char** environment) {
  if (!environ) environ = environment;
  if (wanted()) install_handler();
}

}  // namespace

void install_futex_trap() noexcept {
  if (!wanted()) return;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FUTEX_PRIVATE_FLAG, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  install_handler();
  let_traps_through();
  raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (failed(raw_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, as_long(&program))))
    say("private futexes cannot be trapped here: the system refuses seccomp filters; going on without");
}

}  // namespace mortise::isolate
