// A handler jumps out of a wait for other signals: what is sent then comes to the thread that still waits.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { kSignals = 5 };
static sigset_t awaited, both;
static sigjmp_buf out;
static volatile int has_jumped, taken;

static void jump(int signal) { siglongjmp(out, signal); }
static void* jumps(void* unused) {
  sigset_t own;
  int signal;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &own, NULL);
  if (sigsetjmp(out, 1) == 0) sigwait(&awaited, &signal);
  for (has_jumped = 1;;) pause();
  return unused;
}
static void* waits(void* unused) {
  for (int signal; taken < kSignals && sigwait(&awaited, &signal) == 0;) ++taken;
  return unused;
}

int main(void) {
  pthread_t jumper, waiter;
  signal(SIGUSR1, jump);
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGRTMIN);
  both = awaited;
  sigaddset(&both, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  pthread_create(&jumper, NULL, jumps, NULL);
  for (usleep(50000); !has_jumped; usleep(20000)) pthread_kill(jumper, SIGUSR1);
  pthread_create(&waiter, NULL, waits, NULL);
  usleep(50000);
  for (int i = 0; i < kSignals; ++i) sigqueue(getpid(), SIGRTMIN, (union sigval){i});
  for (int i = 0; i < 300 && taken < kSignals; ++i) usleep(10000);
  printf("taken: %d\n", taken);
  return fflush(stdout), _exit(0), 0;
}
