// matrix_multiply: rows of one product divided among threads.
#include "workers.h"

struct job {
  int from, to;
};
static int side;
static int *a, *b, *c;

static void* work(void* argument) {
  const struct job* j = argument;
  for (int row = j->from; row < j->to; ++row)
    for (int column = 0; column < side; ++column) {
      int sum = 0;
      for (int k = 0; k < side; ++k) sum += a[row * side + k] * b[k * side + column];
      c[row * side + column] = sum;
    }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  side = (int)size_or(count, arguments, 600);
  const size_t cells = (size_t)side * (size_t)side;
  a = malloc(cells * sizeof *a), b = malloc(cells * sizeof *b), c = malloc(cells * sizeof *c);
  uint64_t seed = 362436069;
  for (size_t i = 0; i < cells; ++i) a[i] = (int)(next_random(&seed) % 10), b[i] = (int)(next_random(&seed) % 10);
  struct job* jobs = calloc((size_t)threads, sizeof *jobs);
  for (int i = 0; i < threads; ++i) jobs[i] = (struct job){side * i / threads, side * (i + 1) / threads};
  run_workers(threads, work, jobs, sizeof *jobs);
  uint64_t sum = 0;
  for (size_t i = 0; i < cells; ++i) sum = sum * 31 + (uint64_t)c[i];
  printf("%016llx\n", (unsigned long long)sum);
  free(a), free(b), free(c), free(jobs);
  return 0;
}
