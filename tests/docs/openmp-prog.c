// A reader's program with OpenMP, whose threads wait for each other by futexes that no library function stands before.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  long sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum)
  for (long i = 0; i < 20000; ++i) {
    long* const p = malloc(sizeof *p);
    *p = i;
    sum += *p;
    free(p);
  }
  printf("%ld\n", sum);
}
