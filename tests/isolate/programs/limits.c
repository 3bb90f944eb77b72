// A limit that one thread sets holds for the others, and for threads and programs that are started then.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_barrier_t turn;
static void look(const char* who) {
  struct rlimit files, core;
  getrlimit(RLIMIT_NOFILE, &files);
  prlimit(getpid(), RLIMIT_CORE, NULL, &core);
  printf("%s: %d %d\n", who, (int)files.rlim_cur, (int)core.rlim_cur);
}
static void* sets(void* unused) {
  struct rlimit limit, old;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 77;
  printf("set: %d", setrlimit(RLIMIT_NOFILE, &limit));
  limit = (struct rlimit){8192, 8192};
  printf(" %d\n", prlimit(getpid(), RLIMIT_CORE, &limit, &old));
  limit = (struct rlimit){10, 5};
  errno = 0;
  printf("refused: %d", setrlimit(RLIMIT_NOFILE, &limit));
  printf(" %d\n", errno);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  look("who sets");
  return unused;
}
static void* looks(void* unused) { return look("a new thread"), unused; }

int main(void) {
  pthread_t thread, other;
  setbuf(stdout, NULL);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, sets, NULL);
  pthread_barrier_wait(&turn);
  look("main");
  pthread_create(&other, NULL, looks, NULL);
  pthread_join(other, NULL);
  const struct rlimit limit = {4096, 4096};
  setrlimit(RLIMIT_CORE, &limit);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return system("ulimit -n") != 0;
}
