// Each thread takes one of many signals and ends, then the next begins: they come in the order in which they were sent.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRounds = 10, kSignals = 20 };
static sigset_t set;
static volatile int value;
static void* take_one(void* unused) {
  siginfo_t info;
  value = sigwaitinfo(&set, &info) > 0 ? info.si_value.sival_int : -1;
  return unused;
}

int main(void) {
  int wrong = 0;
  const int program = getpid();
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < kSignals; ++i) {
      pthread_t thread;
      pthread_create(&thread, NULL, take_one, NULL);
      if (i == 0) {
        usleep(20000);
        if (fork() == 0) {
          for (int k = 0; k < kSignals; ++k) sigqueue(program, SIGRTMIN, (union sigval){k});
          _exit(0);
        }
        wait(NULL);
      }
      pthread_join(thread, NULL);
      wrong += value != i;
    }
  printf("wrong: %d\n", wrong);
  return 0;
}
