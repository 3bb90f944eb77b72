// Threads that come and go: how many descriptors more there are afterwards.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "descriptors.h"

static void* stays_a_while(void* unused) { return usleep(10000), unused; }

int main(void) {
  int before = 0;
  for (int i = 0; i < 30; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, stays_a_while, NULL);
    pthread_join(thread, NULL);
    if (i == 5) before = descriptors();
  }
  printf("%d\n", descriptors() - before);
  return 0;
}
