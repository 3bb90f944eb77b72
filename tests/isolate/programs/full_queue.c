// As many signals are queued for the program as may be, and nobody takes them; the next one, of the old kind, comes to who waits for it all the
// same: three times, of a process and of a handler, and by a thread that lets it in.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kTimes = 3 };
static pthread_barrier_t turn;
static sigset_t awaited;
static volatile sig_atomic_t handled;

static void handles(int signal) { handled = signal; }
static void* takes(void* unused) {
  for (int i = 0, signal = 0; i < kTimes; ++i) {
    sigwait(&awaited, &signal);
    printf("took: %d\n", signal == SIGUSR1);
    pthread_barrier_wait(&turn);
  }
  return unused;
}
static void* lets_in(void* unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  pthread_barrier_wait(&turn);
  while (!handled) usleep(1000);
  printf("handled: %d\n", handled == SIGTERM);
  return unused;
}

int main(void) {
  const struct rlimit few = {64, 64};
  pthread_t waiter, other;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  signal(SIGTERM, handles);
  setrlimit(RLIMIT_SIGPENDING, &few);
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR1);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&waiter, NULL, takes, NULL);
  while (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0) {}
  for (int i = 0; i < kTimes; ++i) {
    kill(getpid(), SIGUSR1);
    pthread_barrier_wait(&turn);
  }
  pthread_join(waiter, NULL);
  pthread_create(&other, NULL, lets_in, NULL);
  pthread_barrier_wait(&turn);
  kill(getpid(), SIGTERM);
  pthread_join(other, NULL);
  return 0;
}
