// signal_marks.cpp: what is noted in a signal that is passed on.
//
// What kill() and the kernel itself send (codes from 0 on) and tkill() may not be imitated in another's name. So a signal travels as one of
// sigqueue(), and the code that it had is noted in si_errno, which is 0 in all that are queued. Whatever else is in it stays in its place.
#include "signal_marks.hpp"

#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr unsigned kPassedOn = 0x6d6f;  // the upper half of si_errno; the code is the lower

bool is_marked(const siginfo_t& info) noexcept { return info.si_code < 0 && static_cast<unsigned>(info.si_errno) >> 16 == kPassedOn; }

int code_of(const siginfo_t& info) noexcept { return static_cast<std::int16_t>(info.si_errno); }

bool may_be_imitated(int code) noexcept { return code < 0 && code != SI_TKILL; }

}  // namespace

void mark_as_passed_on(siginfo_t& info) noexcept {
  if (is_marked(info)) return;
  info.si_errno = static_cast<int>(kPassedOn << 16 | (static_cast<unsigned>(info.si_code) & 0xffff));
  if (!may_be_imitated(info.si_code)) info.si_code = SI_QUEUE;
}

// Where as many signals are queued as may be, one of the old ones comes all the same, but what was said with it is lost.
bool is_passed_on(const siginfo_t& info) noexcept {
  if (info.si_code == SI_USER && info.si_pid == 0) return self && (self->passed.load() & bit_of(info.si_signo));
  return is_marked(info);
}

void unmark_passed_on(siginfo_t& info) noexcept {
  if (!is_passed_on(info)) return;
  if (self) self->passed.fetch_and(~bit_of(info.si_signo));
  if (!is_marked(info)) return;
  info.si_code = code_of(info);
  info.si_errno = 0;
}

void unmark_for_leader(siginfo_t& info) noexcept {
  if (is_marked(info) && may_be_imitated(code_of(info))) info.si_errno = 0;
}

}  // namespace mortise::isolate
