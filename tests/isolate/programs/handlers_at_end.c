// No handler runs in a thread that has been joined: what it needs may be gone.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int joined, late, number;
static _Thread_local int own_round;
static void on_one(int n) { late += joined >= own_round; }
static void* ends(void* round) {
  own_round = *(int*)round;
  number = gettid();
  return NULL;
}

int main(void) {
  signal(SIGUSR1, on_one);
  for (int round = 1; round < 3000; ++round) {
    pthread_t thread;
    pthread_create(&thread, NULL, ends, &round);
    while (pthread_tryjoin_np(thread, NULL) != 0) continue;
    joined = round;
    syscall(SYS_tgkill, getpid(), number, SIGUSR1);
  }
  printf("late: %d\n", late);
  return 0;
}
