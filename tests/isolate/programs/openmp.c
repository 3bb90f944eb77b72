// OpenMP: libgomp waits on futexes by system calls compiled into it.
#include <omp.h>
#include <stdio.h>

int main(void) {
  long sum = 0;
  int threads = 0;
#pragma omp parallel for reduction(+ : sum)
  for (long i = 0; i < 1000000; ++i) sum += i;
#pragma omp parallel
#pragma omp critical
  ++threads;
  printf("sum %ld, threads %d\n", sum, threads);
  return 0;
}
