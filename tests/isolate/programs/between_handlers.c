// Main and a thread handle the same signals, and block them only while they do: each has its own in the order in which they were sent.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { kSignals = 400, kWorkUs = 5000 };
static sigset_t set;
static volatile int taken, displaced[2], last[2];
static __thread int me;

static void handle(int signal, siginfo_t* info, void* unused) {
  displaced[me] += info->si_value.sival_int < last[me];
  last[me] = info->si_value.sival_int;
  usleep(kWorkUs);
  __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}
static void* handles(void* unused) {
  me = 1;
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  for (;;) pause();
  return unused;
}

int main(void) {
  const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  const int program = getpid();
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sigaction(SIGRTMIN, &action, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, handles, NULL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  usleep(300000);
  if (fork() == 0) {
    for (int i = 0; i < kSignals; ++i) sigqueue(program, SIGRTMIN, (union sigval){i});
    _exit(0);
  }
  while (taken < kSignals) usleep(1000);
  printf("out of order: %d\n", displaced[0] + displaced[1]);
  fflush(stdout);
  _exit(0);
}
