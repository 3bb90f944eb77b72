// One line of planted false sharing (threads 1 and 2, neighbouring counters in one block), one of true sharing
// (threads 3 and 4, one atomic counter), and a thread that shares nothing. Runs for the time given in milliseconds.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct counters {
  volatile long left, right;
};
static struct counters* neighbours;
static long* atomic_counter;
static long milliseconds;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void* work(void* argument) {
  const long number = (long)argument;
  volatile long own = 0;
  for (const double end = now() + milliseconds; now() < end;)
    for (int i = 0; i < 1000; ++i) {
      if (number == 1) ++neighbours->left;
      if (number == 2) ++neighbours->right;
      if (number == 3 || number == 4) __atomic_fetch_add(atomic_counter, 1, __ATOMIC_RELAXED);
      if (number == 5) ++own;
    }
  return NULL;
}

int main(int count, char** arguments) {
  milliseconds = count > 1 ? atol(arguments[1]) : 1000;
  neighbours = aligned_alloc(64, 64);  // allocation of the false sharing
  neighbours->left = neighbours->right = 0;
  atomic_counter = aligned_alloc(64, 64);  // allocation of the true sharing
  *atomic_counter = 0;
  pthread_t threads[5];
  for (long i = 0; i < 5; ++i) pthread_create(&threads[i], NULL, work, (void*)(i + 1));
  for (int i = 0; i < 5; ++i) pthread_join(threads[i], NULL);
  printf("done\n");
  return 0;
}
