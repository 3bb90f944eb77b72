// A library with a clock of its own in front of libc's, as libfaketime: it counts for each thread that libc has made, and allocates.
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* t) {
  static thread_local volatile int depth = 0;
  if (depth == 0) {
    depth = 1;
    free(malloc(400'000));
    depth = 0;
  }
  return static_cast<int>(syscall(SYS_clock_gettime, clock, t));
}
