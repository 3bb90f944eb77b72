// A signal comes when the time of a thread that waits for it is just over: it takes it nevertheless, or whoever waits next does.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static sigset_t set;
static volatile int begun, taken;
static void* waits(void* unused) {
  const struct timespec time = {0, 200000};
  begun = 1;
  taken = sigtimedwait(&set, NULL, &time) == SIGUSR1;
  return unused;
}

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
  const struct timespec second = {1, 0};
  int lost = 0;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < 5000 && !lost; ++i) {
    pthread_t thread;
    begun = taken = 0;
    pthread_create(&thread, NULL, waits, NULL);
    while (!begun) continue;
    for (const long then = now() + 100000 + i * 977L % 200000; now() < then;) continue;
    kill(getpid(), SIGUSR1);
    pthread_join(thread, NULL);
    lost += !taken && sigtimedwait(&set, NULL, &second) != SIGUSR1;
  }
  printf("lost: %d\n", lost);
  return 0;
}
