// A signal that comes while its handler runs waits for its end, and one of a higher number that is sent after it comes after it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { kTimes = 10, kSlow = 1 };
static sigset_t both;
static volatile sig_atomic_t runs, may_end, handled, last, stop;

static void handle(int signal, siginfo_t* info, void* unused) {
  for (runs = 1; info->si_value.sival_int == kSlow && !may_end;) usleep(1000);
  last = signal;
  ++handled;
}
static void* lets_in(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &both, NULL);
  while (!stop) usleep(1000);
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  int wrong = 0;
  sigemptyset(&both);
  for (int i = 0; i < 2; ++i) sigaddset(&both, SIGRTMIN + i);
  action.sa_mask = both;
  for (int i = 0; i < 2; ++i) sigaction(SIGRTMIN + i, &action, NULL);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, lets_in, NULL);
  for (int i = 0; i < kTimes; ++i) {
    runs = may_end = handled = 0;
    sigqueue(getpid(), SIGRTMIN, (union sigval){kSlow});
    while (!runs) usleep(1000);
    sigqueue(getpid(), SIGRTMIN, (union sigval){0});
    usleep(50000);
    may_end = 1;
    while (!handled) usleep(1000);
    usleep(5000);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0});
    while (handled < 3) usleep(1000);
    wrong += last != SIGRTMIN + 1;
  }
  stop = 1;
  pthread_join(thread, NULL);
  printf("out of order: %d\n", wrong);
  return 0;
}
