// Two signals come at once while a thread maps memory: both handlers run, and neither stays blocked.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

static volatile int ones, twos, stop, blocked;
static void on_one(int n) { ++ones; }
static void on_two(int n) { ++twos; }
static void* maps(void* unused) {
  enum { kBytes = 1 << 16, kRights = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_ANONYMOUS };
  while (!stop) {
    char* const first = mmap(NULL, kBytes, kRights, kKind, -1, 0);
    char* second = mmap(NULL, kBytes, kRights, kKind, -1, 0);
    first[0] = second[0] = 1;
    munmap(first, kBytes);
    second = mremap(second, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
    munmap(second, 2 * kBytes);
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, SIGUSR1) || sigismember(&now, SIGUSR2)) blocked = 1;
  }
  return unused;
}

int main(void) {
  signal(SIGUSR1, on_one);
  signal(SIGUSR2, on_two);
  pthread_t thread;
  pthread_create(&thread, NULL, maps, NULL);
  for (int round = 0; round < 5000 && !blocked; ++round) {
    pthread_kill(thread, SIGUSR1);
    pthread_kill(thread, SIGUSR2);
    while ((ones <= round || twos <= round) && !blocked) sched_yield();
  }
  stop = 1;
  pthread_join(thread, NULL);
  printf("blocked: %d\n", blocked);
}
