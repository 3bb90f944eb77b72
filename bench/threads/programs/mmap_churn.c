// mmap_churn: a server that maps a buffer per request, writes every page of it and unmaps it. SIZE: kilobytes a buffer. A third number:
// how many times the usual number of requests.
#include <sys/mman.h>

#include "workers.h"

enum { kKilobytesInTotal = 12000 * 64 };
static size_t bytes;
static long requests_each;

static void* work(void* argument) {
  unsigned long* sum = argument;
  for (long i = 0; i < requests_each; ++i) {
    unsigned char* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    for (size_t at = 0; at < bytes; at += 4096) {
      *sum += p[at];   // fresh memory is zero
      p[at] = (unsigned char)i;
    }
    munmap(p, bytes);
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  const long kilobytes = size_or(count, arguments, 64);
  bytes = (size_t)kilobytes << 10;
  const long times = count > 3 ? atol(arguments[3]) : 1;
  requests_each = kKilobytesInTotal / kilobytes / threads * times;
  struct {
    unsigned long sum;
    char apart[120];
  }* jobs = calloc((size_t)threads, sizeof *jobs);
  run_workers(threads, work, jobs, sizeof *jobs);
  unsigned long sum = 0;
  for (int i = 0; i < threads; ++i) sum += jobs[i].sum;
  printf("stale bytes %lu\n", sum);
  free(jobs);
  return 0;
}
