// Prints what malloc_usable_size says of every size up to a limit: usable LIMIT.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int, char** argv) {
  const unsigned long limit = strtoul(argv[1], nullptr, 10);
  for (unsigned long n = 1; n <= limit; n += n < 20'000 ? 1 : 97) {
    void* p = malloc(n);
    printf("%lu %zu\n", n, malloc_usable_size(p));
    free(p);
  }
}
