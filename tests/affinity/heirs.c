/* A thread builds two lists and ends; main releases them, and says how much memory there is before and after a trim. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
  struct node* next;
  long value[3];
};

static long resident_kib(void) {
  long all, resident = 0;
  FILE* const f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &all, &resident) != 2) exit(2);
  fclose(f);
  return resident * 4;
}
static struct node *first, *second;
static void* build(void* unused) {
  for (long i = 0; i < 500000; ++i) {
    struct node* const a = malloc(sizeof *a);
    a->next = first, a->value[0] = i;
    first = a;
    struct node* const b = malloc(sizeof *b);
    b->next = second, b->value[0] = -i;
    second = b;
  }
  return unused;
}
static void release(struct node* list) {
  for (struct node* next; list; list = next) {
    next = list->next;
    free(list);
  }
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, build, NULL);
  pthread_join(thread, NULL);
  const long built = resident_kib();
  release(first);
  release(second);
  malloc_trim(0);
  printf("%ld %ld\n", built, resident_kib());
  return 0;
}
