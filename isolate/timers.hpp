// timers.hpp: POSIX timers and the alarm clock belong to the program, not to the thread that set them.
#pragma once

#include <csignal>
#include <ctime>
#include <sys/time.h>

namespace mortise::isolate {

/// Replacements. A timer that counts CPU time, or signals the calling thread by its number, stays that thread's own.
int create_timer(clockid_t clock, sigevent* event, timer_t* timer) noexcept;
int set_timer(timer_t timer, int flags, const itimerspec* value, itimerspec* old) noexcept;
int get_timer(timer_t timer, itimerspec* value) noexcept;
int timer_overrun(timer_t timer) noexcept;
int delete_timer(timer_t timer) noexcept;

int set_interval_timer(__itimer_which_t which, const itimerval* value, itimerval* old) noexcept;
int get_interval_timer(__itimer_which_t which, itimerval* value) noexcept;
unsigned set_alarm(unsigned seconds) noexcept;

/// In the watchdog, to whom the kernel tells of timers that a function is called for (SIGEV_THREAD).
void timer_has_expired(const siginfo_t& info) noexcept;

/// In the child of a fork, which has none.
void forget_timers() noexcept;

}  // namespace mortise::isolate
