// A thread that waits for the program's signals while all threads block them, as servers have one.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static sigset_t set;
static sem_t taken;
static volatile int last, count;

static void* wait_for_signals(void* unused) {
  for (;;) {
    int signal = 0;
    const int error = sigwait(&set, &signal);
    last = error ? -error : signal;
    ++count;
    sem_post(&taken);
    if (signal == SIGTERM) return unused;
  }
}

static void* send(void* way) { return kill(getpid(), SIGUSR2), way; }

static void* told(void* unused) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  const int signal = sigwaitinfo(&set, &info);
  printf("info: %d, by kill %d, from here %d\n", signal == SIGUSR1, info.si_code == SI_USER, info.si_pid == getpid());
  sem_post(&taken);  // one of a kind can be pending
  const int queued = sigwaitinfo(&set, &info);
  printf("queued: %d, %d\n", queued == SIGUSR1 && info.si_code == SI_QUEUE, info.si_value.sival_int);
  const struct timespec soon = {0, 1000000};
  errno = 0;
  const int none = sigtimedwait(&set, &info, &soon);
  printf("timed: %d %d\n", none, errno == EAGAIN);
  sem_post(&taken);
  sigwaitinfo(&set, &info);
  return unused;
}

/* What the kernel sends to the thread that waits, which no other has. */
static sigset_t own;
static void* its_own(void* unused) {
  const struct itimerval soon = {{0, 0}, {0, 1000}};
  setitimer(ITIMER_REAL, &soon, NULL);
  printf("alarm: %d\n", sigwaitinfo(&own, NULL) == SIGALRM);
  int ends[2];
  pipe(ends);
  close(ends[0]);
  write(ends[1], "", 1);
  printf("pipe: %d\n", sigwaitinfo(&own, NULL) == SIGPIPE);
  return unused;
}

static void expect(const char* what) {
  sem_wait(&taken);
  printf("%s: signal %d, %d in all\n", what, last, count);
}

int main(void) {
  pthread_t waiter, sender;
  void* end;
  setpgid(0, 0);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2), sigaddset(&set, SIGTERM), sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sigaddset(&own, SIGALRM), sigaddset(&own, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &own, NULL);
  sem_init(&taken, 0, 0);
  pthread_create(&waiter, NULL, wait_for_signals, NULL);
  kill(getpid(), SIGUSR1);
  expect("by main");
  pthread_create(&sender, NULL, send, NULL);
  expect("by a thread");
  pthread_join(sender, NULL);
  pthread_kill(waiter, SIGUSR1);
  expect("to the thread");
  char command[64];
  sprintf(command, "kill -USR2 %d", getpid());
  system(command);
  expect("from outside");
  kill(0, SIGINT);
  expect("to the group");
  kill(getpid(), SIGTERM);
  expect("the end");
  pthread_join(waiter, NULL);
  pthread_create(&waiter, NULL, told, NULL);
  kill(getpid(), SIGUSR1);
  sem_wait(&taken);
  union sigval value = {.sival_int = 7};
  sigqueue(getpid(), SIGUSR1, value);
  sem_wait(&taken);
  pthread_cancel(waiter);
  pthread_join(waiter, &end);
  pthread_create(&waiter, NULL, its_own, NULL);
  pthread_join(waiter, NULL);
  printf("cancelled: %d\n", end == PTHREAD_CANCELED);
  return 0;
}
