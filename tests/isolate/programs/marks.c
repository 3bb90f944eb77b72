// What the program marks its memory with holds in threads that are there already: no dumps and no tracers, no huge pages.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t barrier;

static void look(const char* who) {
  printf("%s: dumpable %d, no huge pages %d\n", who, prctl(PR_GET_DUMPABLE), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
}

static void* looks(void* unused) {
  pthread_barrier_wait(&barrier), pthread_barrier_wait(&barrier);
  look("thread");
  printf("%d\n", prctl(PR_SET_DUMPABLE, 7));
  syscall(SYS_prctl, PR_SET_DUMPABLE, 1);
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, looks, NULL);
  pthread_barrier_wait(&barrier);
  printf("%d %d\n", prctl(PR_SET_DUMPABLE, 0), prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  look("main");
}
