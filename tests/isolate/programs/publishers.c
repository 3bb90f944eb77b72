// A handler does what the thread that it interrupts is doing: sigaction, which every thread's process has to follow, and exec.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { kTimes = 300 };
static volatile int handled, execs;

static void nothing(int n) {}
static void set(int n, void (*handler)(int)) {
  const struct sigaction action = {.sa_handler = handler};
  sigaction(n, &action, NULL);
}
static void on_signal(int n) {
  set(SIGUSR2, nothing);
  if (++handled < kTimes) return;
  if (execs) execl("/bin/sh", "sh", "-c", "exit 21", NULL);
}
static void* set_for_ever(void* unused) {
  while (execs || handled < kTimes) set(SIGUSR2, nothing);
  return unused;
}

int main(int count, char** arguments) {
  execs = count > 1;
  set(SIGALRM, on_signal);
  set(SIGUSR1, on_signal);
  pthread_t thread;
  pthread_create(&thread, NULL, set_for_ever, NULL);
  if (execs) {
    for (;;) pthread_kill(thread, SIGUSR1), usleep(200);
  }
  const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  set_for_ever(NULL);
  setitimer(ITIMER_REAL, &never, NULL);
  pthread_join(thread, NULL);
  printf("through\n");
  return 0;
}
