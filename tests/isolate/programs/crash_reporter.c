// A program that handles SIGSEGV, to say where it crashed: what malloc reserves for its threads is not forbidden in each of them first.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kThreads = 4, kBlocks = 600 };
static pthread_barrier_t turn;
static void* blocks[kThreads][kBlocks];

static void report(int n) { _exit(99); }
static void* allocates(void* own) {
  void** const mine = blocks[(long)own];
  for (int i = 0; i < kBlocks; ++i) memset(mine[i] = malloc(5000), 1, 5000);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return own;
}

int main(void) {
  pthread_t threads[kThreads];
  signal(SIGSEGV, report);
  pthread_barrier_init(&turn, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, allocates, (void*)i);
  pthread_barrier_wait(&turn);
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  int forbidden = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long low, high;
    char rights[5];
    sscanf(line, "%lx-%lx %4s", &low, &high, rights);
    forbidden += rights[0] == '-' && rights[3] == 's' && high - low > 1 << 20;
  }
  printf("forbidden: %d\n", forbidden);
  pthread_barrier_wait(&turn);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return 0;
}
