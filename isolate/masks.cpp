// masks.cpp: signal masks of the program, SIGSEGV and the two signals of the runtime taken out.
#include "masks.hpp"

#include <cerrno>
#include <cstring>

#include "raw.hpp"
#include "signal_pass.hpp"
#include "signal_wait.hpp"

namespace mortise::isolate {
namespace {

constexpr std::uint64_t bit(int signal) noexcept { return 1ull << (signal - 1); }
constexpr std::uint64_t kRuntime = bit(32) | bit(33);  // cancellation and rendezvous, which glibc's own sets leave out as well
constexpr long kMaskBytes = 8;

constinit std::uint64_t never_blocked = bit(SIGSEGV) | kRuntime;

}  // namespace

std::uint64_t blockable(std::uint64_t mask) noexcept { return mask & ~never_blocked; }

std::uint64_t mask_of_program(const sigset_t& set) noexcept {
  std::uint64_t mask;
  std::memcpy(&mask, &set, sizeof mask);
  return blockable(mask);
}

void let_faults_through() noexcept {
  raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, as_long(&never_blocked), 0, kMaskBytes);
}

void let_traps_through() noexcept {
  never_blocked |= bit(SIGSYS);
  let_faults_through();
}

int change_signal_mask(int how, const sigset_t* set, sigset_t* old) noexcept {
  std::uint64_t wanted = 0;
  if (set && how == SIG_UNBLOCK) std::memcpy(&wanted, set, sizeof wanted);
  else if (set) wanted = mask_of_program(*set);
  std::uint64_t before = 0;
  if (set && how != SIG_BLOCK) have_each_back(how == SIG_SETMASK ? ~wanted : wanted);
  const long result = raw_syscall(SYS_rt_sigprocmask, how, set ? as_long(&wanted) : 0, as_long(&before), kMaskBytes);
  if (failed(result)) return static_cast<int>(-result);
  if (set && how != SIG_BLOCK) let_pending_in(how == SIG_SETMASK ? wanted : before & ~wanted);
  if (old) {
    sigemptyset(old);
    std::memcpy(old, &before, sizeof before);
  }
  return 0;
}

int change_process_signal_mask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error = change_signal_mask(how, set, old);
  return error ? (errno = error, -1) : 0;
}

}  // namespace mortise::isolate
