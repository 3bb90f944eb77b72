// linear_regression: sums over points of two bytes. Each thread adds into its own structure in one array: without
// optimisation the sums live in memory, and neighbours meet in one cache line.
#include "input.h"

struct job {
  const unsigned char* points;
  size_t count;
  long long sx, sy, sxx, syy, sxy;
};

static void* work(void* argument) {
  struct job* j = argument;
  for (size_t i = 0; i < j->count; ++i) {
    j->sx += j->points[2 * i];
    j->sxx += j->points[2 * i] * j->points[2 * i];
    j->sy += j->points[2 * i + 1];
    j->syy += j->points[2 * i + 1] * j->points[2 * i + 1];
    j->sxy += j->points[2 * i] * j->points[2 * i + 1];
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  const size_t points = (size_t)size_or(count, arguments, 200) * 1000000;
  const unsigned char* map = map_input("points", 2 * points, 2463534242ull);
  struct job* jobs = calloc((size_t)threads, sizeof *jobs);
  for (int i = 0; i < threads; ++i) {
    const size_t from = points * (size_t)i / (size_t)threads, to = points * ((size_t)i + 1) / (size_t)threads;
    jobs[i].points = map + 2 * from;
    jobs[i].count = to - from;
  }
  run_workers(threads, work, jobs, sizeof *jobs);
  long long total[5] = {0};
  for (int i = 0; i < threads; ++i) {
    total[0] += jobs[i].sx, total[1] += jobs[i].sy, total[2] += jobs[i].sxx;
    total[3] += jobs[i].syy, total[4] += jobs[i].sxy;
  }
  printf("%lld %lld %lld %lld %lld\n", total[0], total[1], total[2], total[3], total[4]);
  free(jobs);
  return 0;
}
