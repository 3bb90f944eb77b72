// mortise-clock: what this machine's clock can tell, and what the latency layer costs here.
//
//   mortise-clock            one line of JSON: the counter's rate, its smallest step, what an empty pair of readings takes, and how
//                            often a reading was before one that another CPU had taken earlier
//   mortise-clock pairs N    nanoseconds per call of N malloc/free pairs: once plain, once behind the layer
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kReadings = 200000, kHandOvers = 100000, kRepetitions = 7 };

static uint64_t ticks(void) {
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
#else
  uint64_t now;
  __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now) : : "memory");
  return now;
#endif
}

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

// Two threads hand a reading to and fro, each on its own CPU where there are two.
static _Atomic uint64_t handed;
static _Atomic long backwards;

static void* hand_over(void* which) {
  long me = (long)which;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((int)me, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  uint64_t give_up = now_ns(CLOCK_MONOTONIC) + 300000000u;
  for (long i = 0; i < kHandOvers; i++) {
    uint64_t seen;
    // The lowest bit says whose turn it is.
    while (((seen = atomic_load_explicit(&handed, memory_order_acquire)) & 1) != (uint64_t)me)
      if (now_ns(CLOCK_MONOTONIC) > give_up) return NULL;
#if defined(__x86_64__)
    __asm__ volatile("lfence" : : : "memory");  // else the reading may be taken before the hand-over is seen
#endif
    uint64_t mine = ticks();
    if (mine < (seen & ~1ull)) atomic_fetch_add(&backwards, 1);
    atomic_store_explicit(&handed, (mine & ~1ull) | (uint64_t)!me, memory_order_release);
  }
  return NULL;
}

// The least distance between two differences that each make at least 1 % of all (some CPUs add 1 to a reading that
// would repeat the one before, so distances of 1 do not count); where all are the same, that difference.
static uint64_t step_of(const uint64_t* sorted) {
  uint64_t step = UINT64_MAX, before = 0;
  int is_first = 1;
  for (int from = 0, to = 0; from < kReadings; from = to) {
    while (to < kReadings && sorted[to] == sorted[from]) to++;
    if (to - from < kReadings / 100) continue;
    if (!is_first && sorted[from] - before > 1 && sorted[from] - before < step) step = sorted[from] - before;
    before = sorted[from];
    is_first = 0;
  }
  return step == UINT64_MAX ? sorted[kReadings / 2] : step;
}

static int clock_facts(void) {
  static uint64_t differences[kReadings];
  uint64_t begun_ns = now_ns(CLOCK_MONOTONIC_RAW), begun = ticks();
  uint64_t last = ticks();
  for (int i = 0; i < kReadings; i++) {
    uint64_t now = ticks();
    differences[i] = now - last;
    last = now;
  }
  qsort(differences, kReadings, sizeof *differences, ascending);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, hand_over, (void*)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  while (now_ns(CLOCK_MONOTONIC_RAW) - begun_ns < 20000000u) {}
  uint64_t ended_ns = now_ns(CLOCK_MONOTONIC_RAW), ended = ticks();
  printf("{\"ticks_per_s\":%.0f,\"step_ticks\":%llu,\"empty_ticks\":%llu,\"backwards\":%ld}\n",
         (double)(ended - begun) / (double)(ended_ns - begun_ns) * 1e9, (unsigned long long)step_of(differences),
         (unsigned long long)differences[kReadings / 2], (long)backwards);
  return 0;
}

// The best of some repetitions of CPU time: what others do to this machine is not the layer's cost.
static int pairs(long count) {
  double best = 1e9;
  for (int repetition = 0; repetition < kRepetitions; repetition++) {
    uint64_t begun = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < count; i++) {
      void* volatile block = malloc(64);
      free(block);
    }
    double each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begun) / (double)count / 2;
    if (each < best) best = each;
  }
  printf("%.3f\n", best);
  return 0;
}

int main(int count, char** values) {
  if (count == 1) return clock_facts();
  if (count == 3 && strcmp(values[1], "pairs") == 0 && atol(values[2]) > 0) return pairs(atol(values[2]));
  fprintf(stderr, "mortise-clock: expected no argument, or: pairs NUMBER\n");
  return 2;
}
