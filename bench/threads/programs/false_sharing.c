// false_sharing: every thread counts in a block of its own of 24 bytes, all allocated one after the other by main.
#include "workers.h"

static long rounds;

static void* work(void* argument) {
  volatile long* counter = *(long**)argument;
  for (long i = 0; i < rounds; ++i) ++*counter;
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  rounds = size_or(count, arguments, 100) * 1000000 / threads;
  long** counters = malloc((size_t)threads * sizeof *counters);
  for (int i = 0; i < threads; ++i) counters[i] = calloc(3, sizeof(long));
  run_workers(threads, work, counters, sizeof *counters);
  long sum = 0;
  for (int i = 0; i < threads; ++i) sum += *counters[i];
  printf("%s\n", sum == rounds * threads ? "all counted" : "lost counts");
  for (int i = 0; i < threads; ++i) free(counters[i]);
  free(counters);
  return 0;
}
