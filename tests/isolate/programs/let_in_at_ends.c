// Threads that let in what main blocks come and go while signals are sent to the program: each is handled, or main has it still.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int handled, stop;
static sigset_t set;
static void on_queued(int n, siginfo_t* info, void* context) { atomic_fetch_add(&handled, 1); }
static void* lets_in(void* stays) {
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (stays && !stop) usleep(1000);
  return stays;
}
static void* come_and_go(void* unused) {
  while (!stop) {
    pthread_t thread;
    pthread_create(&thread, NULL, lets_in, NULL);
    pthread_join(thread, NULL);
  }
  return unused;
}

int main(void) {
  const struct sigaction queued = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
  const struct timespec at_once = {0, 0};
  sigemptyset(&set), sigaddset(&set, SIGRTMIN + 1);
  sigaction(SIGRTMIN + 1, &queued, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t coming[6], stays;
  for (int i = 0; i < 6; ++i) pthread_create(&coming[i], NULL, come_and_go, NULL);
  pthread_create(&stays, NULL, lets_in, &set);
  int sent = 0;
  for (int i = 0; i < 10000; ++i) {
    sent += sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0;
    usleep(50);
  }
  stop = 1;
  for (int i = 0; i < 6; ++i) pthread_join(coming[i], NULL);
  pthread_join(stays, NULL);
  while (sigtimedwait(&set, NULL, &at_once) > 0) ++handled;
  printf("lost: %d\n", sent - handled);
  return 0;
}
