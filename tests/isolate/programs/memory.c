// Memory calls after the first create: what one thread maps, grows, shrinks, protects or discards, the others see.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 20, kPage = 4096 };
static pthread_barrier_t turn;
static char *shared_map, *grown, *shared_anonymous, *heap, *opened;
static int zero(const char* p, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (p[i]) return 0;
  return 1;
}

static void* reader(void* unused) {
  sigset_t all;
  sigfillset(&all);  // as workers of many programs do; being behind must not need a signal that the program can block
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pthread_barrier_wait(&turn);  // 1: mapped by main after this thread began
  printf("reader sees %d %d %d\n", shared_map[0], shared_map[kBytes - 1], heap[5000]);
  shared_map[1] = 2;
  shared_anonymous[0] = 3;
  pthread_barrier_wait(&turn);  // 2
  pthread_barrier_wait(&turn);  // 3: discarded by main
  printf("discarded: %d, grown: %d %d\n", zero(shared_map, kBytes), grown[0], grown[4 * kBytes - 1]);
  printf("protected then opened: %d\n", shared_map[kPage] = 4);
  printf("opened after this thread began: %d\n", ++opened[100]);
  pthread_barrier_wait(&turn);  // 4
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&turn, NULL, 2);
  opened = mmap(NULL, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_create(&thread, NULL, reader, NULL);
  shared_map = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  shared_anonymous = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  heap = malloc(300000);
  heap[5000] = 5;
  shared_map[0] = shared_map[kBytes - 1] = 1;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("main sees %d %d\n", shared_map[1], shared_anonymous[0]);
  printf("madvise %d\n", madvise(shared_map, kBytes, MADV_DONTNEED));
  grown = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  grown[0] = 6;
  char* old = grown;
  grown = mremap(grown, kBytes, 4 * kBytes, MREMAP_MAYMOVE);
  grown[4 * kBytes - 1] = 7;
  printf("mremap %d\n", grown != MAP_FAILED && grown[0] == 6);
  (void)old;
  mprotect(opened, kBytes, PROT_READ | PROT_WRITE);
  opened[100] = 8;
  mprotect(shared_map, 2 * kPage, PROT_NONE);
  mprotect(shared_map, 2 * kPage, PROT_READ | PROT_WRITE);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("after: %d %d\n", shared_map[kPage], opened[100]);
  printf("munmap middle: %d\n", munmap(shared_map + kPage, kPage));
  shared_map[0] = shared_map[2 * kPage] = 1;
  char* fixed = mmap(shared_map, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  printf("fixed over: %d %d\n", fixed == shared_map, fixed[0]);
  printf("sbrk: %d\n", sbrk(0) != (void*)-1);
  errno = 0;
  printf("bad munmap: %d %d\n", munmap((void*)1, kPage), errno == EINVAL);
  for (int i = 0; i < 2000; ++i) {
    char* p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!zero(p, 65536)) printf("fresh memory is not zero\n");
    memset(p, 1, 65536);
    munmap(p, 65536);
  }
  pthread_join(thread, NULL);
  return 0;
}
