// costs: what a thread and a lock cost. PROGRAM MEGABYTES: of heap that is in use meanwhile. Prints microseconds of
// create and join, nanoseconds of an uncontended lock and unlock, microseconds of a round trip by condition variable.
#include <time.h>

#include "workers.h"

enum { kThreads = 500, kLocks = 10000000, kTrips = 20000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int turn;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static void* nothing(void* p) { return p; }
static void* trips(void* argument) {
  const int mine = *(int*)argument;
  for (int i = 0; i < kTrips; ++i) {
    pthread_mutex_lock(&mutex);
    while (turn != mine) pthread_cond_wait(&changed, &mutex);
    turn = 1 - mine;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

int main(int count, char** arguments) {
  const size_t bytes = (size_t)(count > 1 ? atol(arguments[1]) : 0) << 20;
  char* heap = bytes ? malloc(bytes) : NULL;
  if (heap) memset(heap, 1, bytes);
  pthread_t thread;
  for (int i = 0; i < 50; ++i) pthread_create(&thread, NULL, nothing, NULL), pthread_join(thread, NULL);
  double start = now();
  for (int i = 0; i < kThreads; ++i) pthread_create(&thread, NULL, nothing, NULL), pthread_join(thread, NULL);
  printf("create+join us %.1f\n", (now() - start) / kThreads * 1e6);
  start = now();
  for (int i = 0; i < kLocks; ++i) pthread_mutex_lock(&own), pthread_mutex_unlock(&own);
  printf("lock+unlock ns %.2f\n", (now() - start) / kLocks * 1e9);
  int both[] = {0, 1};
  start = now();
  run_workers(2, trips, both, sizeof both[0]);
  printf("round trip us %.2f\n", (now() - start) / kTrips * 1e6);
  free(heap);
  return 0;
}
