// Queued signals of two kinds come at once while a thread maps memory: those of each in their order.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

static volatile int stop, wrong, last[2];
static void on_kind(int n, siginfo_t* info, void* context) {
  volatile int* const before = &last[n - SIGRTMIN - 2];
  wrong += info->si_value.sival_int != *before + 1;
  *before = info->si_value.sival_int;
}
static void* maps(void* unused) {
  enum { kBytes = 1 << 16 };
  while (!stop) {
    char* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    munmap(memory, kBytes);
  }
  return unused;
}

int main(void) {
  const struct sigaction action = {.sa_sigaction = on_kind, .sa_flags = SA_SIGINFO};
  pthread_t thread;
  for (int k = 2; k <= 3; ++k) sigaction(SIGRTMIN + k, &action, NULL);
  pthread_create(&thread, NULL, maps, NULL);
  for (int i = 1; i < 3000 && !wrong; i += 3) {
    for (int k = 0; k < 6; ++k) pthread_sigqueue(thread, SIGRTMIN + 2 + k % 2, (union sigval){.sival_int = i + k / 2});
    while ((last[0] != i + 2 || last[1] != i + 2) && !wrong) sched_yield();
  }
  stop = 1;
  pthread_join(thread, NULL);
  printf("wrong: %d\n", wrong);
  return 0;
}
