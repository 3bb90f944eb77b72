// Threads that wait for queued signals, or let them in, come and go while another process sends more than may be queued: each is taken, by
// one of them or by main at the end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSignals = 20000, kQueued = 40, kTimes = 5 };
static atomic_int stop, taken;
static sigset_t set;
static void handle(int signal, siginfo_t* info, void* context) { ++taken; }
static void* waits(void* unused) {
  const struct timespec soon = {0, 1000000};
  for (int i = 0; i < kTimes; ++i)
    if (sigtimedwait(&set, NULL, &soon) > 0) ++taken;
  return unused;
}
static void* lets_in(void* unused) {
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  usleep(2000);
  return unused;
}
static void* come_and_go(void* unused) {
  while (!stop) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, waits, NULL);
    pthread_create(&threads[1], NULL, lets_in, NULL);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  }
  return unused;
}
static void send_all(int to) {
  for (int sent = 0; sent < kSignals;)
    if (sigqueue(to, SIGRTMIN + sent % 2, (union sigval){sent}) == 0) ++sent;
    else if (errno != EAGAIN) return;
}

int main(void) {
  const struct rlimit few = {kQueued, kQueued};
  const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
  const struct timespec long_after = {2, 0};
  setrlimit(RLIMIT_SIGPENDING, &few);
  sigemptyset(&set);
  for (int i = 0; i < 2; ++i) sigaddset(&set, SIGRTMIN + i), sigaction(SIGRTMIN + i, &action, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_t coming[4];
  for (int i = 0; i < 4; ++i) pthread_create(&coming[i], NULL, come_and_go, NULL);
  const int self = getpid(), sender = fork();
  if (sender == 0) return send_all(self), _exit(0), 0;
  waitpid(sender, NULL, 0);
  stop = 1;
  for (int i = 0; i < 4; ++i) pthread_join(coming[i], NULL);
  while (taken < kSignals && sigtimedwait(&set, NULL, &long_after) > 0) ++taken;
  printf("lost: %d\n", kSignals - taken);
  return 0;
}
