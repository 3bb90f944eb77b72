// exec from a thread, or from main while threads run: the process id stays, the threads end.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char before[32];
static void become(void) {
  execl("/nowhere/to/be/found", "x", NULL);
  printf("failed as it should\n");
  fflush(stdout);
  execl("/bin/sh", "sh", "-c", "test $$ = $1 && echo same process; exit 11", "sh", before, NULL);
}
static void* work(void* in_thread) {
  if (in_thread) become();
  for (;;) pause();
  return NULL;
}

int main(int count, char** arguments) {
  const int in_thread = count > 1 && !strcmp(arguments[1], "thread");
  snprintf(before, sizeof before, "%d", getpid());
  pthread_t thread, idle;
  pthread_create(&idle, NULL, work, NULL);
  pthread_create(&thread, NULL, work, in_thread ? arguments : NULL);
  usleep(10000);
  if (!in_thread) become();
  pthread_join(thread, NULL);
  return 1;
}
