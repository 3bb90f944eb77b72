/* Threads on two memory nodes, and what the kernel says of where their blocks lie. Prints, for each node, how many pages of blocks that its
 * threads were given lie on it, and how many elsewhere:
 *
 *   first 0 1234 0      fresh memory
 *   handed 1 1234 0     after another node freed as much as it could
 *   again 0 1234 0      after that other node used as much again
 *
 * Exit status 0 when nothing went wrong in itself; what the figures should be is the reader's affair. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES = 2, BLOCKS = 6000, PAGE = 4096 };
static unsigned char* blocks[NODES][BLOCKS];

/* Sizes of all classes, and some beyond: 16 bytes to 1 MiB, small ones more often. About 40 MiB in all. */
static size_t size_of(int i) { return i % 500 == 0 ? 300000 + (size_t)i * 100 : i % 50 == 0 ? 40000 + (size_t)i * 30 : 16 + (size_t)i * 7 % 5000; }

static int node_of_cpu(void) {
  unsigned cpu, node;
  if (syscall(SYS_getcpu, &cpu, &node, NULL)) exit(3);
  return (int)node;
}

/* Keeps this thread on the CPUs of a node. */
static void stay_on(int node) {
  for (int cpu = 0; cpu < 64; ++cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0 && node_of_cpu() == node) return;
  }
  printf("no CPU of node %d\n", node);
  exit(3);
}

struct work {
  int node, of;
  const char* name;
};

static void* take(void* work) {
  const struct work* w = work;
  stay_on(w->node);
  long here = 0, elsewhere = 0;
  for (int i = 0; i < BLOCKS; ++i) {
    unsigned char* const p = blocks[w->of][i] = malloc(size_of(i));
    if (!p) exit(4);
    memset(p, i, size_of(i));
    for (uintptr_t page = (uintptr_t)p & ~(uintptr_t)(PAGE - 1); page < (uintptr_t)p + size_of(i); page += PAGE) {
      void* at = (void*)page;
      int status = -1;
      if (syscall(SYS_move_pages, 0, 1ul, &at, NULL, &status, 0) || status < 0) {
        printf("move_pages: %s, status %d\n", strerror(errno), status);
        exit(5);
      }
      ++*(status == w->node ? &here : &elsewhere);
    }
  }
  printf("%s %d %ld %ld\n", w->name, w->node, here, elsewhere);
  return NULL;
}

static void* give(void* work) {
  const struct work* w = work;
  stay_on(w->node);
  for (int i = 0; i < BLOCKS; ++i) {
    for (size_t k = 0; k < size_of(i); k += 512)
      if (blocks[w->of][i][k] != (unsigned char)i) exit(6);
    free(blocks[w->of][i]);
  }
  return NULL;
}

static void on_thread(void* (*run)(void*), struct work w) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, &w) || pthread_join(thread, NULL)) exit(7);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int node = 0; node < NODES; ++node) on_thread(take, (struct work){node, node, "first"});
  on_thread(give, (struct work){1, 0, ""});
  on_thread(take, (struct work){1, 0, "handed"});
  on_thread(give, (struct work){0, 0, ""});
  on_thread(give, (struct work){0, 1, ""});
  for (int node = 0; node < NODES; ++node) on_thread(take, (struct work){node, node, "again"});
  return 0;
}
