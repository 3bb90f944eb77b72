// main forks while another process has as many signals queued as may be, again and again, and a thread takes them: no child is given another
// limit than the program has.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kQueued = 40, kForks = 300 };
static atomic_int stop;
static sigset_t set;
static void* takes(void* unused) {
  const struct timespec soon = {0, 1000000};
  while (!stop) sigtimedwait(&set, NULL, &soon);
  return unused;
}
static void send_all(int to) {
  for (;; usleep(rand() % 1000))
    for (int i = 0; i < kQueued + 20; ++i)
      if (sigqueue(to, SIGRTMIN, (union sigval){i}) && errno != EAGAIN) return;
}
static int has_other_limit(void) {
  struct rlimit now;
  return getrlimit(RLIMIT_SIGPENDING, &now) || now.rlim_cur != kQueued;
}

int main(void) {
  const struct rlimit few = {kQueued, kQueued};
  int others = 0, status;
  pthread_t taker;
  setrlimit(RLIMIT_SIGPENDING, &few);
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  const int self = getpid(), sender = fork();
  if (sender == 0) return send_all(self), _exit(0), 0;
  pthread_create(&taker, NULL, takes, NULL);
  for (int i = 0; i < kForks; ++i) {
    const int child = fork();
    if (child == 0) _exit(has_other_limit());
    waitpid(child, &status, 0);
    others += status != 0;
  }
  kill(sender, SIGKILL);
  waitpid(sender, NULL, 0);
  stop = 1;
  pthread_join(taker, NULL);
  printf("with another limit: %d\n", others);
  return 0;
}
