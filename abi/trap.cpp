// Accesses that a page forbids: where the stack has guard pages, the signal is explained before it ends the program. And what
// a program or a debugger may ask of a hardened heap.
#include <signal.h>
#include <ucontext.h>

#include "abi/heap.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::abi {
namespace {

[[maybe_unused]] constinit struct sigaction before[2] = {};

#if defined(__x86_64__)
const void* program_counter(const ucontext_t* c) noexcept {
  return reinterpret_cast<const void*>(c->uc_mcontext.gregs[REG_RIP]);
}
#else
const void* program_counter(const ucontext_t* c) noexcept { return reinterpret_cast<const void*>(c->uc_mcontext.pc); }
#endif

template <class H> bool is_explained(H& h, const void* at, Crime& crime) noexcept {
  if constexpr (Explains<H>) return h.explain(static_cast<const std::byte*>(at), crime);
  return false;
}
[[maybe_unused]] void on_trap(int signal, siginfo_t* info, void* context) noexcept {
  Crime crime{};
  const struct sigaction& old = before[signal == SIGBUS];
  const bool is_sent = info->si_code <= 0;  // by raise or kill: no access, and no instruction that would run again
  if (!is_sent && is_explained(heap, info->si_addr, crime)) {
    // Places are return addresses, behind the instruction.
    crime.seen_at = static_cast<const char*>(program_counter(static_cast<ucontext_t*>(context))) + 1;
    tell(crime);
  } else if (old.sa_flags & SA_SIGINFO) {
    return old.sa_sigaction(signal, info, context);
  } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
    return old.sa_handler(signal);
  } else if (is_sent && old.sa_handler == SIG_IGN) {
    return;
  }
  // The instruction runs again and ends the program, where a core file and a debugger see it.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (is_sent) os::syscall(SYS_tgkill, os::syscall(SYS_getpid), os::syscall(SYS_gettid), signal);
}

[[gnu::constructor(102)]] void watch_traps() noexcept {
  if constexpr (Explains<Heap>) {
    struct sigaction ours{};
    ours.sa_sigaction = on_trap;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before[0]);
    sigaction(SIGBUS, &ours, &before[1]);
  }
}

template <class H> void check_waiting(H& h) noexcept {
  if constexpr (ChecksWaiting<H>)
    if (typename H::Thread* t = thread_if_ready()) h.check_waiting(*t);
}
template <class H> long check_all(H& h) noexcept {
  if constexpr (ChecksAll<H>) {
    const long broken = prepare_thread() ? static_cast<long>(h.check_all(thread())) : 0;
    leave_if_ended();
    return broken;
  }
  return -1;
}

/// What waits in quarantines when the program ends is looked at once more.
[[gnu::destructor(102)]] void look_once_more() noexcept {
  check_waiting(heap);
}

}  // namespace
}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::abi;

/// Checks every block that the program holds, reports each that is damaged, and returns how many there are; -1 where the
/// allocator has no checksums, or cannot walk (wfslabs). The program's other threads must not allocate or free meanwhile.
extern "C" MORTISE_EXPORT long mortise_check_heap() noexcept {
  return check_all(heap);
}
