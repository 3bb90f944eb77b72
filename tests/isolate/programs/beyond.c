// A thread reads on behind a block that another one has made since: up to a page that the allocator forbids, if it has such.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t turn;
static char* volatile block;
static void* reads_on(void* unused) {
  pthread_barrier_wait(&turn);
  for (volatile char* p = block; p < block + (64 << 20); p += 64) (void)*p;
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  const int is_early = !strcmp(arguments[1], "before");
  pthread_barrier_init(&turn, NULL, 2);
  if (is_early) block = malloc(3000);
  pthread_create(&thread, NULL, reads_on, NULL);
  if (!is_early) block = malloc(3000);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  printf("not noticed\n");
  return 0;
}
