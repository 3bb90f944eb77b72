// restart.cpp: sigsuspend, pause, poll, semop and their like answer EINTR to any handler, SA_RESTART or not.
//
//   mov $NUMBER, %eax     b8 ....        as libc makes its calls
//   mov N(%rsp), %edi     8b 7c 24 .     in some of them
//   syscall               0f 05
//   <- rip                               rax = -EINTR: the call has been ended, its arguments still stand in registers
//
// Setting rax and rip back makes it once more. Calls with a time limit are made again only where the kernel has written down
// what is left of it, or where the limit is a point in time; others answer EINTR, which their callers expect.
#include "restart.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <ucontext.h>

#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr int kCallBytes = 2, kNumberBytes = 5;

/// The number of the call that ended at `end`, or -1 where the instructions before it say nothing.
long number_before(const unsigned char* end) noexcept {
  constexpr unsigned char kMove[] = {0x8b, 0x7c, 0x24}, kCall[] = {0x0f, 0x05};
  const unsigned char* at = end - kCallBytes;
  if (std::memcmp(at, kCall, sizeof kCall) != 0) return -1;
  if (at[-kNumberBytes] != 0xb8 && std::memcmp(at - 4, kMove, sizeof kMove) == 0) at -= 4;
  if (at[-kNumberBytes] != 0xb8) return -1;
  std::int32_t number;
  std::memcpy(&number, at - kNumberBytes + 1, sizeof number);
  return number;
}

/// A sleep for a time writes the rest where the caller asked for it; the next one sleeps for that.
bool sleep_on(long flags, greg_t& request, greg_t rest) noexcept {
  if (flags & TIMER_ABSTIME) return true;
  if (rest == 0) return false;
  request = rest;
  return true;
}

bool may_restart(long number, greg_t* r) noexcept {
  switch (number) {
    case SYS_rt_sigsuspend:
    case SYS_pause:
    case SYS_select:  // these three write what is left into the time they were given
    case SYS_pselect6:
    case SYS_ppoll:
    case SYS_semop:
    case SYS_msgsnd:
    case SYS_msgrcv:
      return true;
    case SYS_semtimedop:
      return r[REG_R10] == 0;
    case SYS_rt_sigtimedwait:
      return r[REG_RDX] == 0;
    case SYS_futex:  // its time limit is a point in time
      return (r[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    case SYS_poll:
      return static_cast<int>(r[REG_RDX]) < 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return static_cast<int>(r[REG_R10]) < 0;
    case SYS_nanosleep:
      return sleep_on(0, r[REG_RDI], r[REG_RSI]);
    case SYS_clock_nanosleep:
      return sleep_on(r[REG_RSI], r[REG_RDX], r[REG_R10]);
    default:
      return false;
  }
}

/// Calls that may wait, and that the kernel itself makes again.
bool may_end(long number, const greg_t* r) noexcept {
  switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_flock:
      return true;
    case SYS_fcntl:
      return r[REG_RSI] == F_SETLKW || r[REG_RSI] == F_OFD_SETLKW;
    default:
      return false;
  }
}

}  // namespace

void end_system_call(ucontext_t& context) noexcept {
  greg_t* r = context.uc_mcontext.gregs;
  const auto* next = reinterpret_cast<const unsigned char*>(r[REG_RIP]);
  // A call that was begun has left where it would come back to in rcx.
  if (next[0] != 0x0f || next[1] != 0x05 || r[REG_RCX] != r[REG_RIP] + 2 || !may_end(r[REG_RAX], r)) return;
  r[REG_RIP] += 2;
  r[REG_RAX] = -EINTR;
}

void restart_system_call(ucontext_t& context) noexcept {
  greg_t* r = context.uc_mcontext.gregs;
  if (r[REG_RAX] != -EINTR) return;
  const long number = number_before(reinterpret_cast<const unsigned char*>(r[REG_RIP]));
  if (may_restart(number, r)) r[REG_RAX] = number, r[REG_RIP] -= kCallBytes;
}

}  // namespace mortise::isolate
