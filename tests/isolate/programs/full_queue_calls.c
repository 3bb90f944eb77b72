// As many signals are queued as may be, and nobody takes them: what is done in all threads, and in main for a thread, is done all the same.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static void handle(int signal) { handled = signal; }
static void* ask(void* unused) {
  const struct itimerval soon = {{0, 0}, {0, 1000}};
  signal(SIGALRM, handle);
  setitimer(ITIMER_REAL, &soon, NULL);
  return unused;
}
static void* sleep_long(void* unused) {
  for (;;) sleep(1000);
}

int main(void) {
  const struct rlimit few = {64, 64};
  pthread_t asker, sleeper;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  setrlimit(RLIMIT_SIGPENDING, &few);
  pthread_create(&sleeper, NULL, sleep_long, NULL);
  while (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0) {}
  pthread_create(&asker, NULL, ask, NULL);
  pthread_join(asker, NULL);
  while (!handled) usleep(1000);
  printf("handled: %d\n", handled == SIGALRM);
  return 0;
}
