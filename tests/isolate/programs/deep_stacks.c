// Threads use much of their stacks and end: what is kept for the next ones is little.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

enum { kThreads = 4, kPage = 4096, kDeep = 4 << 20 };
static struct stack {
  char* low;
  size_t bytes;
} stacks[kThreads];
static pthread_barrier_t turn;

static void* goes_deep(void* out) {
  volatile char room[kDeep];
  struct stack* const stack = out;
  pthread_attr_t attributes;
  for (int i = 0; i < kDeep; i += kPage) room[i] = 1;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, (void**)&stack->low, &stack->bytes);
  pthread_attr_destroy(&attributes);
  pthread_barrier_wait(&turn);
  return NULL;
}

int main(void) {
  static unsigned char pages[16384];
  pthread_t threads[kThreads];
  pthread_barrier_init(&turn, NULL, kThreads);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, goes_deep, &stacks[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    int used = 0;
    const size_t count = stacks[i].bytes / kPage;
    if (count > sizeof pages || mincore(stacks[i].low, stacks[i].bytes, pages)) continue;  // nothing is kept
    for (size_t k = 0; k < count; ++k) used += pages[k] & 1;
    if (used > 64) printf("kept: %d pages\n", used);
  }
  return 0;
}
