// Two signals come at once while a thread maps memory: both handlers run, and neither stays blocked. Those that queue come in their order,
// with the mask that their action asks for.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

static volatile int ones, twos, stop, blocked, last, wrong;
static void on_one(int n) { ++ones; }
static void on_two(int n) { ++twos; }
static void on_queued(int n, siginfo_t* info, void* context) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  wrong += info->si_value.sival_int != last + 1 || !sigismember(&now, n) || !sigismember(&now, SIGUSR1) || sigismember(&now, SIGUSR2);
  last = info->si_value.sival_int;
}
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

static void send_two(pthread_t thread) {
  for (int round = 0; round < 5000 && !blocked; ++round) {
    pthread_kill(thread, SIGUSR1);
    pthread_kill(thread, SIGUSR2);
    while ((ones <= round || twos <= round) && !blocked) sched_yield();
  }
}
static void send_queued(pthread_t thread) {
  for (int i = 1; i < 40000 && !wrong; i += 4) {
    for (int k = 0; k < 4; ++k) pthread_sigqueue(thread, SIGRTMIN + 2, (union sigval){.sival_int = i + k});
    while (last != i + 3 && !wrong) sched_yield();
  }
}

int main(void) {
  struct sigaction queued = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
  sigaddset(&queued.sa_mask, SIGUSR1);
  sigaction(SIGRTMIN + 2, &queued, NULL);
  signal(SIGUSR1, on_one);
  signal(SIGUSR2, on_two);
  pthread_t thread;
  pthread_create(&thread, NULL, maps, NULL);
  send_two(thread);
  if (!blocked) send_queued(thread);
  stop = 1;
  pthread_join(thread, NULL);
  printf("blocked: %d, wrong: %d\n", blocked, wrong);
}
