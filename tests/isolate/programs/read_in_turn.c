// Two signals are queued for the program; one thread takes the first from a signalfd and is busy from there on, another the second:
// read_in_turn read, poll or select.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 60, kSeconds = 10 };
static const char* how;
static int file;
static atomic_int taken;

static void take(void) {
  struct signalfd_siginfo info;
  struct pollfd poll_it = {file, POLLIN};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(file, &set);
  if (strcmp(how, "poll") == 0) poll(&poll_it, 1, -1);
  if (strcmp(how, "select") == 0) select(file + 1, &set, NULL, NULL, NULL);
  if (read(file, &info, sizeof info) == sizeof info) ++taken;
}
static int have_both(void) {
  for (const time_t end = time(NULL) + kSeconds; taken < 2 && time(NULL) < end;) sched_yield();
  return taken == 2;
}
static void* first(void* unused) {
  take();
  return (void*)(long)!have_both();
}
static void* second(void* unused) {
  usleep(2000);
  take();
  return NULL;
}

int main(int count, char** arguments) {
  how = arguments[1];
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  file = signalfd(-1, &set, 0);
  long late = 0;
  for (int round = 0; round < kRounds && !late; ++round) {
    taken = 0;
    for (int i = 0; i < 2; ++i) sigqueue(getpid(), SIGRTMIN, (union sigval){i});
    pthread_t threads[2];
    void* is_late;
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], &is_late);
    late += (long)is_late;
    if (!late) pthread_join(threads[1], NULL);
  }
  printf("late: %ld\n", late);
  fflush(stdout);
  _exit(0);
}
