// unbroken.cpp: putting signals off.
#include "unbroken.hpp"

#include <atomic>
#include <cstring>
#include <ucontext.h>

#include "raw.hpp"
#include "signals.hpp"

namespace mortise::isolate {
namespace {

// Each thread's own. Its handlers are on the same thread: the order of the program text is all they need.
__thread int deep = 0;
__thread bool is_put_off = false;
__thread std::uint64_t mask_before = 0;

void in_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

Unbroken::Unbroken() noexcept {
  ++deep;
  in_order();
}

Unbroken::~Unbroken() {
  in_order();
  if (--deep > 0) return;
  in_order();
  if (!is_put_off) return;  // and if it was, nothing has come since
  is_put_off = false;
  restore_signals(mask_before);
}

bool put_off(int signal, const siginfo_t& info, ucontext_t& context) noexcept {
  if (deep == 0) return false;
  std::uint64_t mask;
  std::memcpy(&mask, &context.uc_sigmask, sizeof mask);
  if (failed(raw_syscall(SYS_rt_tgsigqueueinfo, raw_getpid(), raw_gettid(), signal, as_long(&info)))) return false;
  mask_before = mask;  // of several that came at once the first to have come is put off last, and it found the section's
  is_put_off = true;
  mask |= kProgramSignals;
  std::memcpy(&context.uc_sigmask, &mask, sizeof mask);
  return true;
}

}  // namespace mortise::isolate
