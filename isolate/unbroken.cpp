// unbroken.cpp: putting signals off.
#include "unbroken.hpp"

#include <atomic>
#include <cstring>
#include <ucontext.h>
#include <utility>

#include "actions.hpp"
#include "raw.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

// Each thread's own. Its handlers are on the same thread: the order of the program text is all they need.
__thread int deep = 0;
__thread bool is_put_off = false;
__thread std::uint64_t mask_before = 0;

constexpr int kFirstQueued = 34, kLast = 64, kCarrier = 33;
constexpr int kMost = kLast - kFirstQueued + 1;  // one of each number; more come only where the program has them nest

constinit siginfo_t kept[kThreadsMax][kMost]{};
__thread int kept_count = 0;
__thread bool is_carried = false;

void in_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

bool send_self(const siginfo_t& info) noexcept {
  return !failed(raw_syscall(SYS_rt_tgsigqueueinfo, raw_getpid(), raw_gettid(), info.si_signo, as_long(&info)));
}

/// False: nothing was kept.
bool send_carrier() noexcept {
  if (kept_count == 0) return false;
  siginfo_t carrier{};
  carrier.si_signo = kCarrier;
  carrier.si_code = SI_USER;  // which needs no place among those that are queued
  is_carried = true;
  in_order();
  return send_self(carrier);
}

}  // namespace

Unbroken::Unbroken() noexcept {
  ++deep;
  in_order();
}

Unbroken::~Unbroken() {
  in_order();
  if (--deep > 0) return;
  in_order();
  if (!is_put_off || send_carrier()) return;  // and if it was, nothing has come since
  is_put_off = false;
  restore_signals(mask_before);
}

bool put_off(int signal, const siginfo_t& info, ucontext_t& context) noexcept {
  if (deep == 0) return false;
  std::uint64_t mask;
  std::memcpy(&mask, &context.uc_sigmask, sizeof mask);
  if (signal >= kFirstQueued && self && kept_count < kMost) kept[self->index][kept_count++] = info;
  else if (!send_self(info)) return false;
  mask_before = mask;  // of several that came at once the first to have come is put off last, and it found the section's
  is_put_off = true;
  mask |= kProgramSignals;
  std::memcpy(&context.uc_sigmask, &mask, sizeof mask);
  return true;
}

void handle_put_off(ucontext_t& context) {
  if (!std::exchange(is_carried, false)) return;
  if (std::exchange(is_put_off, false)) std::memcpy(&context.uc_sigmask, &mask_before, sizeof mask_before);
  siginfo_t info = kept[self->index][--kept_count];
  send_carrier();
  deliver_as_kernel(info, context);
}

}  // namespace mortise::isolate
