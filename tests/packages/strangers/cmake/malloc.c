#include <stdio.h>
#include <stdlib.h>

int main(void) {
  for (int i = 0; i < 100000; ++i) free(malloc((size_t)i));
  return puts("done") < 0;
}
