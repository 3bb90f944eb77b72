// A thread looks whether a signal has come that was sent to the program, and does not wait.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static sigset_t set;
static void* looks(void* seen) {
  const struct timespec at_once = {0, 0};
  siginfo_t info = {0};
  *(int*)seen += sigtimedwait(&set, &info, &at_once) == SIGUSR1 && info.si_code == SI_USER;
  *(int*)seen += sigtimedwait(&set, &info, &at_once) < 0;
  return seen;
}

int main(void) {
  int seen = 0;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < 100; ++i) {
    pthread_t thread;
    kill(getpid(), SIGUSR1);
    pthread_create(&thread, NULL, looks, &seen);
    pthread_join(thread, NULL);
  }
  printf("seen: %d of 200\n", seen);
  return 0;
}
