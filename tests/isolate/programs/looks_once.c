// Main lets two signals in for the time of a call, whose first handler blocks the other: another thread that waits for that has it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static sigset_t both, second;
static volatile int blocks, has_blocked, waits_now, handled, got;

static void handle(int signal) { ++handled; }
static void* lets_in(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &both, NULL);
  while (!blocks) usleep(1000);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  for (has_blocked = 1;;) pause();
  return unused;
}
static void* waits(void* unused) {
  const struct timespec two_seconds = {2, 0};
  while (!waits_now) usleep(100);
  got = sigtimedwait(&second, NULL, &two_seconds) > 0;
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_handler = handle};
  sigfillset(&action.sa_mask);
  sigemptyset(&second), sigaddset(&second, SIGRTMIN + 1);
  sigemptyset(&both), sigaddset(&both, SIGRTMIN), sigaddset(&both, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  sigaction(SIGRTMIN, &action, NULL), sigaction(SIGRTMIN + 1, &action, NULL);
  pthread_t first, other;
  pthread_create(&first, NULL, lets_in, NULL);
  pthread_create(&other, NULL, waits, NULL);
  usleep(1200000);  // with isolated threads it takes a second to find out who handles them
  blocks = 1;
  while (!has_blocked) continue;
  usleep(5000);
  for (int i = 1; i >= 0; --i) sigqueue(getpid(), SIGRTMIN + i, (union sigval){i});
  usleep(5000);
  sigset_t others;
  sigfillset(&others), sigdelset(&others, SIGRTMIN), sigdelset(&others, SIGRTMIN + 1);
  sigsuspend(&others);
  waits_now = 1;
  pthread_join(other, NULL);
  printf("main handled: %d, the thread had one: %d\n", handled, got);
  fflush(stdout);
  _exit(0);
}
