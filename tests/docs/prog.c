// A program of a reader's: two threads build lists, walk and free them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct item {
  struct item* next;
  long value;
};

static struct item* push(struct item* list, long value) {
  struct item* const first = malloc(sizeof *first);
  if (!first) abort();
  *first = (struct item){list, value};
  return first;
}

static void* work(void* sum) {
  for (int round = 0; round < 200; ++round) {
    struct item* list = NULL;
    for (long i = 0; i < 1000; ++i) list = push(list, i);
    while (list) {
      struct item* const gone = list;
      list = gone->next;
      *(long*)sum += gone->value;
      free(gone);
    }
  }
  return NULL;
}

int main(void) {
  long sums[2] = {0, 0};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], NULL, work, &sums[i])) return 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%ld\n", sums[0] + sums[1]);
}
