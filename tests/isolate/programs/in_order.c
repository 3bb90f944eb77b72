// Signals of four numbers come in bursts while a thread waits for them, reads them, handles them or lets them in for a moment only, each time
// for a while: those of a number come in the order in which they were sent.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kSignals = 400, kNumbers = 4, kBurst = 40, kWorkUs = 500 };
static const char* how;
static sigset_t set;
static volatile int taken, displaced;
static int last[kNumbers] = {-1, -1, -1, -1};

static void take(int signal, int value) {
  int* const before = &last[signal - SIGRTMIN];
  if (value < *before) ++displaced;
  else *before = value;
  ++taken;
  usleep(rand() % kWorkUs);
}
static void handle(int signal, siginfo_t* info, void* unused) { take(signal, info->si_value.sival_int); }
static void* take_all(void* unused) {
  struct signalfd_siginfo read_info;
  siginfo_t info;
  sigset_t before;
  const int file = signalfd(-1, &set, 0);
  if (strcmp(how, "handles") == 0) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (taken < kSignals)
    if (strcmp(how, "waits") == 0) {
      if (sigwaitinfo(&set, &info) > 0) take(info.si_signo, info.si_value.sival_int);
    } else if (strcmp(how, "reads") == 0) {
      if (read(file, &read_info, sizeof read_info) > 0) take(read_info.ssi_signo, read_info.ssi_int);
    } else if (strcmp(how, "lets-in") == 0) {
      pthread_sigmask(SIG_UNBLOCK, &set, &before);
      pthread_sigmask(SIG_SETMASK, &before, NULL);
      usleep(100);
    } else {
      usleep(1000);
    }
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return unused;
}

int main(int count, char** arguments) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  how = arguments[1];
  sigemptyset(&set);
  for (int i = 0; i < kNumbers; ++i) sigaddset(&set, SIGRTMIN + i);
  action.sa_mask = set;
  for (int i = 0; i < kNumbers; ++i) sigaction(SIGRTMIN + i, &action, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  const int self = getpid();
  pthread_t thread;
  pthread_create(&thread, NULL, take_all, NULL);
  if (fork() == 0) {
    for (int i = 0; i < kSignals; ++i) {
      if (i % kBurst == 0) usleep(50000);  // the first when the thread waits
      sigqueue(self, SIGRTMIN + rand() % kNumbers, (union sigval){i});
    }
    _exit(0);
  }
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 60;  // they never come
  pthread_timedjoin_np(thread, NULL, &soon);
  wait(NULL);
  printf("taken: %d, out of order: %d\n", taken, displaced);
  return fflush(stdout), _exit(0), 0;
}
