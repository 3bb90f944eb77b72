// Three threads wait for the same child of a fourth: one has it, and no other waits for ever.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kTimes = 2000 };
static pthread_barrier_t turn;
static volatile pid_t child;
static int reaped, wrong;

static void* starts(void* unused) {
  for (int i = 0; i < kTimes; i++) {
    const pid_t forked = fork();
    if (forked == 0) _exit(3);
    child = forked;
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
  }
  return unused;
}
static void* waits(void* unused) {
  for (int i = 0; i < kTimes; i++) {
    int status;
    pthread_barrier_wait(&turn);
    if (waitpid(child, &status, 0) == child) __atomic_fetch_add(&reaped, 1, __ATOMIC_SEQ_CST);
    else if (errno != ECHILD) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&turn);
  }
  return unused;
}

int main(void) {
  pthread_t threads[4];
  pthread_barrier_init(&turn, NULL, 4);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i ? waits : starts, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("reaped: %d %d\n", reaped, wrong);
  return 0;
}
