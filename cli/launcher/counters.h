// What the processor counts of a run: instructions and cycles in user mode, of the program and of everything that it starts. Where the
// kernel does not let this process count (no counters, perf_event_paranoid), nothing is counted, and that is what is said.
#ifndef MORTISE_LAUNCHER_COUNTERS_H
#define MORTISE_LAUNCHER_COUNTERS_H
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { kNotCounted = -1 };

// Counts `event` of `pid` from its next exec on; a descriptor, or kNotCounted.
static int count_event(pid_t pid, uint64_t event) {
  struct perf_event_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.size = sizeof wanted;
  wanted.type = PERF_TYPE_HARDWARE;
  wanted.config = event;
  wanted.disabled = wanted.enable_on_exec = wanted.inherit = 1;
  wanted.exclude_kernel = wanted.exclude_hv = 1;
  wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return (int)syscall(SYS_perf_event_open, &wanted, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// What was counted once the run is over; kNotCounted also where the counter was shared with somebody else meanwhile.
static int64_t counted(int descriptor) {
  struct {
    uint64_t value, enabled, running;
  } got;
  if (descriptor < 0 || read(descriptor, &got, sizeof got) != (ssize_t)sizeof got) return kNotCounted;
  return got.running == 0 || got.running != got.enabled ? kNotCounted : (int64_t)got.value;
}

#endif
