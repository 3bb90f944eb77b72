// Signals come at once to threads that wait for them, read them or handle them, and are busy with each for a while: who is free takes the next.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 3, kSignals = 24, kWorkUs = 50000 };
static const char* how;
static sigset_t set;
static volatile int taken, by[kThreads + 1], last[kThreads + 1], displaced;
static __thread long me;

static void take(int value) {
  if (value < last[me]) ++displaced;
  last[me] = value;
  ++by[me];
  usleep(kWorkUs);
  __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}
static void handle(int signal, siginfo_t* info, void* unused) { take(info->si_value.sival_int); }
static void* take_some(void* number) {
  struct signalfd_siginfo read_info;
  siginfo_t info;
  me = (long)number;
  const int file = signalfd(-1, &set, 0);
  if (strcmp(how, "handle") == 0) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  for (;;)
    if (strcmp(how, "wait") == 0) {
      if (sigwaitinfo(&set, &info) > 0) take(info.si_value.sival_int);
    } else if (strcmp(how, "read") == 0) {
      if (read(file, &read_info, sizeof read_info) > 0) take(read_info.ssi_int);
    } else {
      pause();
    }
  return NULL;
}

int main(int count, char** arguments) {
  const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  how = arguments[1];
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sigaction(SIGRTMIN, &action, NULL);
  for (long i = 1; i <= kThreads; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, take_some, (void*)i);
  }
  usleep(1200000);  // with isolated threads it takes a second to find out who handles them
  const int program = getpid();
  if (fork() == 0) {
    for (int i = 0; i < kSignals; ++i) sigqueue(program, SIGRTMIN, (union sigval){i});
    _exit(0);
  }
  wait(NULL);
  while (taken < kSignals) usleep(1000);
  int idle = 0;
  for (int i = 1; i <= kThreads; ++i) idle += by[i] < kSignals / kThreads / 2;
  printf("idle: %d, out of order: %d\n", idle, displaced);
  fflush(stdout);
  _exit(0);
}
