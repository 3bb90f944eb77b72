// A thread that waits for two signals is sent one itself, and the program the other, at once: what it has not taken another thread gets.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 100 };
static sigset_t both;
static volatile int may_wait, taken;
static void* waits(void* unused) {
  for (int round = 1; round <= kRounds; ++round) {
    while (may_wait < round) sched_yield();
    int signal = 0;
    sigwait(&both, &signal);
    taken = signal;
    while (taken) sched_yield();
  }
  return unused;
}

int main(void) {
  const struct timespec second = {1, 0};
  int lost = 0;
  sigemptyset(&both), sigaddset(&both, SIGUSR1), sigaddset(&both, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, waits, NULL);
  for (int round = 1; round <= kRounds; ++round) {
    may_wait = round;
    usleep(1000);
    kill(getpid(), SIGUSR1);
    pthread_kill(thread, SIGUSR2);
    while (!taken) sched_yield();
    const int other = taken == SIGUSR2 ? SIGUSR1 : SIGUSR2;
    if (other == SIGUSR1) lost += sigtimedwait(&both, NULL, &second) != SIGUSR1;
    taken = 0;
    if (other == SIGUSR2 && round < kRounds) {
      may_wait = ++round;
      while (taken != SIGUSR2) sched_yield();
      taken = 0;
    }
  }
  pthread_kill(thread, SIGUSR2);
  printf("lost: %d\n", lost);
  return 0;
}
