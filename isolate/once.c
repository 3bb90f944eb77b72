// once.c: one-time initialisation, in glibc's own values: 0 never ran, 1 running, 2 done.
//
// C and not C++, because only C gives a clean-up to run when an exception or a cancellation leaves the initialiser
// without needing the C++ runtime library: then the control goes back to "never ran" and the next caller tries again.
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kNever = 0, kRunning = 1, kDone = 2 };

static void finish(int* control, int value) {
  __atomic_store_n(control, value, __ATOMIC_RELEASE);
  syscall(SYS_futex, control, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

struct attempt {
  int* control;
  int succeeded;
};

static void end_attempt(struct attempt* a) { finish(a->control, a->succeeded ? kDone : kNever); }

int mortise_isolate_once(pthread_once_t* once, void (*initialise)(void));
__attribute__((visibility("hidden"))) int mortise_isolate_once(pthread_once_t* once, void (*initialise)(void)) {
  int* control = (int*)once;
  for (;;) {
    int seen = __atomic_load_n(control, __ATOMIC_ACQUIRE);
    if (seen & kDone) return 0;
    if (!(seen & kRunning)) {
      // Upper bits may hold glibc's count of forks; an attempt cut off by a fork counts as never run.
      if (!__atomic_compare_exchange_n(control, &seen, kRunning, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
      __attribute__((cleanup(end_attempt))) struct attempt a = {control, 0};
      initialise();
      a.succeeded = 1;
      return 0;
    }
    syscall(SYS_futex, control, FUTEX_WAIT, seen, 0, 0, 0);
  }
}
