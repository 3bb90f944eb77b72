// As many threads as a server with a thread for each client has: all live at once, and each does its part.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 600 };
static pthread_barrier_t all_there;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void* work(void* number) {
  pthread_barrier_wait(&all_there);
  for (int i = 0; i < 10; ++i) {
    char* const block = malloc(1000 + i);
    memset(block, i, 1000);
    pthread_mutex_lock(&mutex);
    sum += (long)number + block[999];
    pthread_mutex_unlock(&mutex);
    free(block);
  }
  return NULL;
}

int main(void) {
  static pthread_t threads[kCount];
  pthread_barrier_init(&all_there, NULL, kCount + 1);
  for (long i = 0; i < kCount; ++i)
    if (pthread_create(&threads[i], NULL, work, (void*)i) != 0) return printf("made: %ld\n", i), 1;
  pthread_barrier_wait(&all_there);
  for (int i = 0; i < kCount; ++i) pthread_join(threads[i], NULL);
  printf("sum: %ld\n", sum);
}
