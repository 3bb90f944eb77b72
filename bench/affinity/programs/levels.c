/* What a level of the chain of calls costs: levels DEPTH COUNT allocates and frees COUNT objects through DEPTH - 1 wrappers, and
 * prints the nanoseconds of a pair. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
static unsigned long volatile calls;
static NOINLINE void* level2(size_t n) { void* p = malloc(n); calls += 1; return p; }
static NOINLINE void* level3(size_t n) { void* p = level2(n); calls += 1; return p; }
static NOINLINE void* level4(size_t n) { void* p = level3(n); calls += 1; return p; }
static NOINLINE void* level5(size_t n) { void* p = level4(n); calls += 1; return p; }
static NOINLINE void* level1(size_t n) { void* p = malloc(n); *(char volatile*)p = 1; return p; }

int main(int argc, char** argv) {
  void* (*const way[])(size_t) = {level1, level2, level3, level4, level5};
  const int depth = argc > 1 ? atoi(argv[1]) : 1;
  const long count = argc > 2 ? atol(argv[2]) : 20000000;
  if (depth < 1 || depth > 5) return fprintf(stderr, "usage: levels 1..5 [COUNT]\n"), 2;
  struct timespec a, b;
  for (int round = 0; round < 2; ++round) {
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < count; ++i) {
      char volatile* p = way[depth - 1](32);
      *p = 1;
      free((void*)p);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
  }
  fprintf(stderr, "%.2f ns\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)count);
  printf("%lu\n", calls);
  return 0;
}
