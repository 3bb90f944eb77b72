// One of a higher number was sent first, but nobody would have it then: who waits for both takes the lower number first.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { kTimes = 5 };
static sigset_t set;
static volatile int blocks, has_blocked, asks, stop;
static volatile int order[2];

static void handle(int signal) {}
static void* lets_in(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (!blocks) usleep(1000);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (has_blocked = 1; !stop;) usleep(1000);
  return unused;
}
static void* waits(void* unused) {
  while (!asks) usleep(100);
  for (int i = 0; i < 2; ++i) order[i] = sigwaitinfo(&set, NULL);
  return unused;
}

int main(void) {
  int wrong = 0;
  sigemptyset(&set), sigaddset(&set, SIGRTMIN), sigaddset(&set, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGRTMIN, handle), signal(SIGRTMIN + 1, handle);
  for (int i = 0; i < kTimes; ++i) {
    pthread_t first, second;
    blocks = has_blocked = asks = stop = 0;
    pthread_create(&first, NULL, lets_in, NULL);
    pthread_create(&second, NULL, waits, NULL);
    usleep(1100000);  // with isolated threads it takes a second to find out who handles them
    blocks = 1;
    while (!has_blocked) continue;
    usleep(2000);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0});
    usleep(3000);
    sigqueue(getpid(), SIGRTMIN, (union sigval){0});
    usleep(3000);
    asks = 1;
    pthread_join(second, NULL);
    stop = 1;
    pthread_join(first, NULL);
    wrong += order[0] != SIGRTMIN;
  }
  printf("higher number first: %d\n", wrong);
  return 0;
}
