// kill of a signal that main waits for ends nothing, and comes back at once: a second each would be a quarter of an hour.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { kTimes = 1000 };
static pthread_barrier_t barrier;
static sigset_t set;

static void* sends(void* unused) {
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kTimes; ++i) kill(getpid(), SIGTERM), pthread_barrier_wait(&barrier);
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  sigemptyset(&set), sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_create(&thread, NULL, sends, NULL);
  pthread_barrier_wait(&barrier);
  int signal, taken = 0;
  for (int i = 0; i < kTimes; ++i) taken += sigwait(&set, &signal) == 0, pthread_barrier_wait(&barrier);
  printf("taken %d\n", taken);
  pthread_join(thread, NULL);
}
