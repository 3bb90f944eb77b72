// Handlers with a stack of their own run on it, whatever they interrupt: the thread's may have no room.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kBytes = 1 << 16, kAutoDisarm = 1u << 31 };

static volatile int ready, stop, handled, elsewhere, wrong;
static char* own;
static int expected;  // what the system says of the stack in the handler
static void on_queued(int n, siginfo_t* info, void* context) {
  char here;
  stack_t now;
  sigaltstack(NULL, &now);
  elsewhere += &here < own || &here >= own + kBytes;
  wrong += now.ss_flags != expected;
  handled = info->si_value.sival_int;
}

static void* maps(void* flags) {
  const stack_t mine = {.ss_sp = own, .ss_flags = *(int*)flags, .ss_size = kBytes};
  sigaltstack(&mine, NULL);
  ready = 1;
  while (!stop) {
    char* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    munmap(memory, kBytes);
    stack_t now;
    sigaltstack(NULL, &now);
    wrong += now.ss_sp != own || now.ss_flags != *(int*)flags;
  }
  return NULL;
}

static void interrupt(int flags) {
  pthread_t thread;
  ready = stop = elsewhere = wrong = 0;
  pthread_create(&thread, NULL, maps, &flags);
  while (!ready) sched_yield();
  for (int i = 1; i < 10000; i += 4) {
    for (int k = 0; k < 4; ++k) pthread_sigqueue(thread, SIGRTMIN + 2, (union sigval){.sival_int = i + k});
    while (handled != i + 3) sched_yield();
  }
  stop = 1;
  pthread_join(thread, NULL);
  printf("elsewhere: %d, wrong: %d\n", elsewhere, wrong);
}

int main(void) {
  const struct sigaction action = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  own = malloc(kBytes);
  sigaction(SIGRTMIN + 2, &action, NULL);
  expected = SS_ONSTACK, interrupt(0);
  expected = SS_DISABLE, interrupt(kAutoDisarm);
  return 0;
}
