/* A program for musl: blocks of four threads through all of malloc's family, a fork, and what it says to the caller. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 500, ROUNDS = 100 };

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

static void* work(void* number) {
  const unsigned char mark = (unsigned char)(uintptr_t)number;
  unsigned char* block[BLOCKS] = {0};
  size_t bytes[BLOCKS] = {0};
  uint32_t random = 1000 + mark;
  for (int i = 0; i < ROUNDS * BLOCKS; ++i) {
    random = random * 1664525u + 1013904223u;
    const unsigned at = (random >> 8) % BLOCKS;
    for (size_t j = 0; j < bytes[at]; j += 61) check(block[at][j] == mark, "nobody else wrote");
    bytes[at] = (random >> 12) % (i % 64 ? 2000 : 400000);
    if (i % 3) {
      free(block[at]);
      block[at] = i % 2 ? malloc(bytes[at]) : aligned_alloc(64, bytes[at]);
    } else {
      block[at] = realloc(block[at], bytes[at] ? bytes[at] : 1);
    }
    check(block[at] != NULL && malloc_usable_size(block[at]) >= bytes[at], "a block");
    memset(block[at], mark, bytes[at]);
  }
  for (int i = 0; i < BLOCKS; ++i) free(block[i]);
  return NULL;
}

static void crowd(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) check(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)) == 0, "a thread");
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

int main(void) {
  crowd();
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    check(child >= 0, "a fork");
    if (child == 0) {
      crowd();
      _exit(0);
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "a child that could allocate");
  }
  check(malloc(SIZE_MAX / 2) == NULL, "no block beyond the address space");
  puts("musl holds");
  return 0;
}
