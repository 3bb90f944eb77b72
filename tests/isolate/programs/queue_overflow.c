// Another process queues signals for the program, more than may be queued at a time: where it is told EAGAIN it tries again. A thread takes
// them all, by sigwaitinfo, by a signalfd or in a handler.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSignals = 20000, kQueued = 64 };
static const char* how;
static sigset_t taken;
static volatile int received, ended;
static char seen[kSignals];

static void take(int value) {
  if (seen[value]++ == 0) ++received;
}
static void handle(int signal, siginfo_t* info, void* unused) {
  if (signal == SIGRTMIN) take(info->si_value.sival_int);
  else ended = 1;
}
static void* take_all(void* unused) {
  struct signalfd_siginfo read_info;
  siginfo_t info;
  const int fd = signalfd(-1, &taken, 0);
  if (strcmp(how, "handles") == 0) {
    sigset_t before;
    pthread_sigmask(SIG_UNBLOCK, &taken, &before);
    while (!ended) usleep(1000);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  while (!ended && strcmp(how, "waits") == 0) {
    const int signal = sigwaitinfo(&taken, &info);
    if (signal == SIGRTMIN) take(info.si_value.sival_int);
    else if (signal > 0) ended = 1;
  }
  while (!ended && read(fd, &read_info, sizeof read_info) > 0)
    if (read_info.ssi_signo == SIGRTMIN) take(read_info.ssi_int);
    else ended = 1;
  return unused;
}

static void send_all(int to, int end_of_wait) {
  char nothing;
  for (int i = 0; i < kSignals;)
    if (sigqueue(to, SIGRTMIN, (union sigval){i}) == 0) ++i;
    else if (errno != EAGAIN) return;
  while (read(end_of_wait, &nothing, 1) < 0) {  // those before come first, having the lower number
    sigqueue(to, SIGRTMIN + 1, (union sigval){0});
    usleep(10000);
  }
}

int main(int count, char** arguments) {
  const struct rlimit few = {kQueued, kQueued};
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  int pipe_ends[2];
  how = arguments[1];
  sigemptyset(&taken);
  sigaddset(&taken, SIGRTMIN);
  sigaddset(&taken, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &taken, NULL);
  action.sa_mask = taken;  // or the last one would interrupt the handler, and those that are still queued would come after it
  sigaction(SIGRTMIN, &action, NULL);
  sigaction(SIGRTMIN + 1, &action, NULL);
  setrlimit(RLIMIT_SIGPENDING, &few);
  pipe2(pipe_ends, O_NONBLOCK);
  const int self = getpid(), sender = fork();
  if (sender == 0) return close(pipe_ends[1]), send_all(self, pipe_ends[0]), 0;
  pthread_t thread;
  pthread_create(&thread, NULL, take_all, NULL);
  pthread_join(thread, NULL);
  close(pipe_ends[1]);
  waitpid(sender, NULL, 0);
  printf("received: %d\n", received);
  return 0;
}
