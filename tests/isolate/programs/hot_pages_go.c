// Two threads change one line of a page, which then is unmapped or which nobody may touch any more ("protected"), page after page.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { kPage = 4096, kTurns = 40, kTurnMs = 100 };
static pthread_barrier_t turn;
static volatile long* page;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void* change(void* own) {
  for (int i = 0; i < kTurns; ++i) {
    pthread_barrier_wait(&turn);
    for (const long end = now() + kTurnMs; now() < end;)
      for (int j = 0; j < 1000; ++j) ++page[(long)own];
    pthread_barrier_wait(&turn);
  }
  return NULL;
}

int main(int count, char** arguments) {
  pthread_barrier_init(&turn, NULL, 3);
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, change, (void*)i);
  for (int i = 0; i < kTurns; ++i) {
    page = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    if (strcmp(arguments[1], "protected") == 0) mprotect((void*)page, kPage, PROT_NONE);
    else munmap((void*)page, kPage);
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("done\n");
  return 0;
}
