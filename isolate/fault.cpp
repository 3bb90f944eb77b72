// fault.cpp: the SIGSEGV handler.
//
// 1. A write to a file mapping that was only read so far: the block becomes shared memory.
// 2. A fault on shared memory whose record allows the access: this address space is behind; it catches up, and the
//    instruction runs again.
// 3. Anything else is the program's: its handler, or the default end by SIGSEGV.
#include "fault.hpp"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

#include "end.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "masks.hpp"
#include "protection.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constinit struct sigaction program_action {};
constinit Lock lock;  // of Quiet: threads fault at the same time

constexpr unsigned long kWriteFault = 2, kFetchFault = 16;  // bits of the page-fault error code

bool on_own_guard(std::uintptr_t address) noexcept {
  return self && address - reinterpret_cast<std::uintptr_t>(self->stack.low) < self->stack.guard_bytes;
}

bool catch_up(const siginfo_t* info, const ucontext_t* context) noexcept {
  if (info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (on_own_guard(address)) return false;
  const auto error = static_cast<unsigned long>(context->uc_mcontext.gregs[REG_ERR]);
  if (info->si_code == SEGV_ACCERR && (error & kWriteFault) && promote_on_write(address)) return true;
  if (info->si_code == SEGV_ACCERR && catch_up_protection(address, error & kWriteFault, error & kFetchFault))
    return true;
  const int needed = error & kWriteFault ? PROT_WRITE : error & kFetchFault ? PROT_EXEC : PROT_READ;
  if (info->si_code == SEGV_ACCERR) return catch_up_file_rights(address, needed);
  return catch_up_file(address) || is_page_here(address);  // a task of a rendezvous may have made the mapping here since
}

void end_by_default(int signal) noexcept {
  let_into_dump();
  const KernelAction by_default{};
  set_action(signal, &by_default, nullptr);  // the instruction runs again and ends the process
  stop_other_threads_before(signal);
}

/// The program's action, which a handler with SA_RESETHAND takes with it.
struct sigaction take_program_action() noexcept {
  Quiet held(lock);
  const struct sigaction action = program_action;
  if (action.sa_flags & static_cast<int>(SA_RESETHAND)) program_action.sa_handler = SIG_DFL;
  return action;
}

void block_in_handler(const sigset_t& set) noexcept {
  std::uint64_t mask;
  std::memcpy(&mask, &set, sizeof mask);
  mask = blockable(mask);
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, as_long(&mask), 0, sizeof mask);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (catch_up(info, static_cast<ucontext_t*>(context))) return;
  const struct sigaction action = take_program_action();
  const auto* handler = reinterpret_cast<const void*>(action.sa_handler);
  if (handler == reinterpret_cast<void*>(SIG_IGN) && info->si_code <= 0) return;  // sent, not faulted
  if (handler == reinterpret_cast<void*>(SIG_DFL) || handler == reinterpret_cast<void*>(SIG_IGN)) {
    end_by_default(signal);
    if (info->si_code <= 0)
      raw_syscall(SYS_tgkill, raw_getpid(), raw_gettid(), signal);  // sent, not faulted: nothing runs again
    return;
  }
  block_in_handler(action.sa_mask);
  if (action.sa_flags & SA_SIGINFO) action.sa_sigaction(signal, info, context);
  else action.sa_handler(signal);
}

}  // namespace

void install_fault_handler() noexcept {
  KernelAction before{};  // by the kernel's own call: libc's is ours by now
  set_action(SIGSEGV, nullptr, &before);
  program_action.sa_handler = reinterpret_cast<void (*)(int)>(before.handler);
  program_action.sa_flags = static_cast<int>(before.flags & ~0x04000000ul);  // SA_RESTORER: libc adds it itself
  std::memcpy(&program_action.sa_mask, &before.mask, sizeof before.mask);
  KernelAction ours{};
  ours.handler = reinterpret_cast<void*>(&on_fault);
  ours.flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  set_action(SIGSEGV, &ours, nullptr);
}

void exchange_program_fault_action(const struct sigaction* action, struct sigaction* old) noexcept {
  struct sigaction before, after {};
  if (action) after = *action;
  const bool were_handled = faults_are_handled();
  {
    Quiet held(lock);
    before = program_action;
    if (action) program_action = after;
  }
  if (old) *old = before;
  if (!were_handled && faults_are_handled()) apply_everywhere();
}

Lock& fault_lock() noexcept { return lock; }

bool faults_are_handled() noexcept {
  const auto* handler = reinterpret_cast<const void*>(program_action.sa_handler);
  return handler != reinterpret_cast<void*>(SIG_DFL) && handler != reinterpret_cast<void*>(SIG_IGN);
}

}  // namespace mortise::isolate
