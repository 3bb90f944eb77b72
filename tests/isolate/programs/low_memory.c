// MAP_32BIT: several threads map, write and unmap memory of which the addresses fit into 32 bits, and see each other's.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { kThreads = 4, kEach = 200, kPage = 4096 };
static uint32_t places[kThreads][kEach];
static pthread_barrier_t turn;
static volatile int bad;

static char* map(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0); }
static size_t bytes_of(int i) { return (1 + i % 7) * kPage; }
static void* work(void* number) {
  const long own = (long)number;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kEach; i++) {
      char* const p = map(bytes_of(i));
      if (p == MAP_FAILED || (uintptr_t)p + bytes_of(i) > UINT32_MAX || p[0] || p[bytes_of(i) - 1]) bad++;
      memset(p, own + 1, bytes_of(i));
      places[own][i] = (uintptr_t)p;
    }
    pthread_barrier_wait(&turn);
    const long other = (own + 1) % kThreads;
    for (int i = 0; i < kEach; i++) {
      const char* const p = (char*)(uintptr_t)places[other][i];
      if (p[0] != other + 1 || p[bytes_of(i) - 1] != other + 1) bad++;
    }
    pthread_barrier_wait(&turn);
    for (int i = 0; i < kEach; i++) bad += munmap((char*)(uintptr_t)places[own][i], bytes_of(i)) != 0;
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&turn, NULL, kThreads);
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("bad: %d, too much: %d\n", bad, map(3ul << 30) == MAP_FAILED);
  return 0;
}
