// Main waits for children of all kinds before it joins threads, some of which have stacks of the program's: join waits for their processes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 400, kStack = 1 << 20 };

static void* ends_soon(void* unused) { return usleep(1000), unused; }
static void reap_any(int by_id) {
  siginfo_t info;
  if (by_id) waitid(P_ALL, 0, &info, WEXITED | __WALL);
  else waitpid(-1, NULL, __WALL);
}

int main(int count, char** arguments) {
  pthread_attr_t with_stack;
  pthread_attr_init(&with_stack);
  pthread_attr_setstack(&with_stack, aligned_alloc(4096, kStack), kStack);
  int failed = 0;
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, i % 2 ? &with_stack : NULL, ends_soon, NULL) != 0) {
      ++failed;
      continue;
    }
    reap_any(i / 2 % 2);
    if (i % 4 == 0) pthread_detach(thread);
    else pthread_join(thread, NULL);
  }
  printf("failed: %d\n", failed);
  return 0;
}
