// Threads made by several threads at once, from the program's first moment on.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { kCreators = 3, kEach = 20 };
static atomic_int made, failed;

static void* count(void* unused) { return atomic_fetch_add(&made, 1), unused; }

static void* creator(void* unused) {
  pthread_t threads[kEach];
  for (int i = 0; i < kEach; ++i) failed += pthread_create(&threads[i], NULL, count, NULL) != 0;
  for (int i = 0; i < kEach; ++i) failed += pthread_join(threads[i], NULL) != 0;
  return unused;
}

int main(void) {
  pthread_t threads[kCreators];
  for (int i = 0; i < kCreators; ++i) failed += pthread_create(&threads[i], NULL, creator, NULL) != 0;
  creator(NULL);
  for (int i = 0; i < kCreators; ++i) failed += pthread_join(threads[i], NULL) != 0;
  printf("made %d failed %d\n", made, failed);
  return 0;
}
