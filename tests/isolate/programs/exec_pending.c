// Main execs the program anew amid a burst of signals that another thread waits for, or handles: what that has not taken is pending for the new
// program, in its order.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kSignals = 100, kWorkUs = 20000 };
static sigset_t set;
static volatile unsigned char* taken;

static void take(const siginfo_t* info) {
  ++taken[info->si_value.sival_int];
  usleep(kWorkUs);
}
static void handle(int signal, siginfo_t* info, void* unused) { take(info); }
static void* take_all(void* handles) {
  siginfo_t info;
  if (handles) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  for (;;)
    if (handles) pause();
    else if (sigwaitinfo(&set, &info) > 0) take(&info);
  return NULL;
}

/// In the new program.
static int count(int sender) {
  const struct timespec none = {0, 0};
  siginfo_t info;
  int lost = 0, twice = 0, displaced = 0, last = -1;
  waitpid(sender, NULL, 0);
  while (sigtimedwait(&set, &info, &none) > 0) {
    displaced += info.si_value.sival_int < last;
    last = info.si_value.sival_int;
    ++taken[last];
  }
  for (int i = 0; i < kSignals; ++i) lost += taken[i] == 0, twice += taken[i] > 1;
  printf("lost: %d, twice: %d, out of order: %d\n", lost, twice, displaced);
  return 0;
}

int main(int arguments, char** argument) {
  const int file = arguments > 2 ? atoi(argument[3]) : memfd_create("taken", 0);
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  if (ftruncate(file, kSignals) != 0) return 2;
  taken = mmap(NULL, kSignals, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (arguments > 2) return count(atoi(argument[2]));

  const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  const int handles = strcmp(argument[1], "handles") == 0, program = getpid();
  sigaction(SIGRTMIN, &action, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, take_all, handles ? &set : NULL);
  usleep(handles ? 1200000 : 20000);  // with isolated threads it takes a second to find out who handles them
  const int sender = fork();
  if (sender == 0) {
    for (int i = 0; i < kSignals; ++i) sigqueue(program, SIGRTMIN, (union sigval){i});
    _exit(0);
  }
  usleep(5 * kWorkUs);
  char number[16], descriptor[16];
  sprintf(number, "%d", sender), sprintf(descriptor, "%d", file);
  execl("/proc/self/exe", argument[0], argument[1], number, descriptor, NULL);
  return 3;
}
