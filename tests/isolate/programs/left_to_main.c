// A thread lets signals in, and no more when they come: main takes them, in order and as they were sent, by a wait of no time or in a handler.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kRounds = 3, kSignals = 30 };
static sigset_t set;
static volatile int may_block, has_blocked, may_end, taken, wrong;

static void take(const siginfo_t* info) {
  wrong += info->si_value.sival_int != taken || info->si_code != SI_QUEUE || info->si_errno != 0;
  ++taken;
}
static void handle(int signal, siginfo_t* info, void* unused) { take(info); }
static void* lets_in(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (!may_block) usleep(1000);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (has_blocked = 1; !may_end;) usleep(1000);
  return unused;
}

int main(int count, char** arguments) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  const struct timespec at_once = {0, 0};
  siginfo_t info;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  action.sa_mask = set;
  sigaction(SIGRTMIN, &action, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < kRounds; ++i) {
    pthread_t thread;
    may_block = has_blocked = may_end = taken = 0;
    pthread_create(&thread, NULL, lets_in, NULL);
    usleep(1100000);  // who lets what in is asked once a second
    for (may_block = 1; !has_blocked;) usleep(1000);
    for (int j = 0; j < kSignals; ++j) sigqueue(getpid(), SIGRTMIN, (union sigval){j});
    usleep(5000);
    if (strcmp(arguments[1], "takes") == 0) {
      while (sigtimedwait(&set, &info, &at_once) > 0) take(&info);
    } else {
      pthread_sigmask(SIG_UNBLOCK, &set, NULL);
      pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    wrong += taken != kSignals;
    may_end = 1;
    pthread_join(thread, NULL);
  }
  printf("wrong: %d\n", wrong);
  return 0;
}
