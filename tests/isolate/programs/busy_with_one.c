// One thread has many signals of a number to handle: another thread has one of a higher number meanwhile.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { kSignals = 60, kWorkUs = 10000 };
static sigset_t lower, higher;
static volatile int handled, when_higher_came = -1;

static void handle(int signal) {
  ++handled;
  usleep(kWorkUs);
}
static void* handles_lower(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &lower, NULL);
  while (handled < kSignals) usleep(1000);
  return unused;
}
static void* takes_higher(void* unused) {
  if (sigwaitinfo(&higher, NULL) > 0) when_higher_came = handled;
  return unused;
}

int main(void) {
  sigset_t both;
  sigemptyset(&lower), sigaddset(&lower, SIGRTMIN);
  sigemptyset(&higher), sigaddset(&higher, SIGRTMIN + 1);
  sigemptyset(&both), sigaddset(&both, SIGRTMIN), sigaddset(&both, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  signal(SIGRTMIN, handle);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, handles_lower, NULL);
  pthread_create(&threads[1], NULL, takes_higher, NULL);
  usleep(1200000);  // with isolated threads it takes a second to find out who handles them
  for (int i = 0; i < kSignals; ++i) sigqueue(getpid(), SIGRTMIN, (union sigval){i});
  usleep(3 * kWorkUs);
  sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0});
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("the higher number waited for all: %d\n", when_higher_came > kSignals / 2);
  return 0;
}
