// mlockall before the first thread and after it: the memory that the runtime has set aside is not brought in, for there is no such
// amount; a limit on CPU time ends the attempt.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 16 };
static void* work(void* unused) {
  char* const block = malloc(1 << 20);
  memset(block, 1, 1 << 20);
  char* const p = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 1, kBytes);
  mmap(p, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  printf("zeros: %d %d\n", p[0], p[kBytes - 1]);
  munmap(p, kBytes);
  free(block);
  return unused;
}
static void work_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
}

int main(int count, char** arguments) {
  const struct rlimit seconds = {2, 2};
  setrlimit(RLIMIT_CPU, &seconds);
  if (!strcmp(arguments[1], "before")) mlockall(MCL_CURRENT | MCL_FUTURE);
  work_in_thread();
  if (!strcmp(arguments[1], "after")) mlockall(MCL_CURRENT | MCL_FUTURE);
  work(NULL);
  work_in_thread();
  fflush(stdout);
  if (fork() == 0) {
    work(NULL);
    fflush(stdout);
    _exit(0);
  }
  wait(NULL);
  puts("done");
  return 0;
}
