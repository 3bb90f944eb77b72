// kernel_thread.cpp: starting one with a plain clone.
#include "kernel_thread.hpp"

#include <sched.h>

#include "raw.hpp"
#include "signals.hpp"
#include "tls.hpp"

namespace mortise::isolate {

int KernelThread::enter(void* own) {
  return static_cast<KernelThread*>(own)->function_(nullptr);
}

bool KernelThread::start(int (*function)(void*)) noexcept {
  if (running_) return true;
  function_ = function;
  if (!make_tls(record_)) return false;
  const std::uint64_t mask = block_signals();  // and it keeps them blocked: the program's signals are not for it
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                    CLONE_PARENT_SETTID;  // its number is asked for before it runs
  running_ = clone(&enter, stack_ + sizeof stack_, flags, this, &tid_field(record_.tcb), record_.tcb, nullptr) > 0;
  restore_signals(mask);
  return running_;
}

int KernelThread::id() const noexcept { return running_ ? tid_field(record_.tcb) : 0; }

}  // namespace mortise::isolate
