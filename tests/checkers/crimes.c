/* crimes WHICH: one mistake with memory, for a checker to find. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile char sink;

int main(int count, char** arguments) {
  const char* which = count > 1 ? arguments[1] : "";
  char* p = malloc(100);
  memset(p, 1, 100);
  if (!strcmp(which, "beyond")) p[100] = 1;
  if (!strcmp(which, "before")) sink = p[100 + 20];
  if (!strcmp(which, "after")) {
    free(p);
    sink = p[10];
    return 0;
  }
  if (!strcmp(which, "twice")) free(p);
  if (!strcmp(which, "uninitialised")) {
    char* q = malloc(100);
    if (q[50]) puts("?");
    free(q);
  }
  if (!strcmp(which, "leak")) p = malloc(100);
  if (!strcmp(which, "none")) {
    for (int i = 0; i < 1000; ++i) {
      char* q = calloc(1, (size_t)i * 700);
      q = realloc(q, (size_t)i * 900 + 1);
      memset(q, 1, (size_t)i * 900 + 1);
      free(q);
    }
  }
  free(p);
  return 0;
}
