// Main blocks the program's signals, and one thread lets them in: its handlers run, whoever sends them.
#define _GNU_SOURCE
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int handled, by_kill, value;
static volatile pthread_t who;
static void on_any(int n, siginfo_t* info, void* context) {
  by_kill = info->si_code == SI_USER;
  value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
  who = pthread_self();
  handled = n;
}
static volatile int stop;
static void* lets_in(void* set) {
  setlocale(LC_ALL, "C.UTF-8");  // whose files this thread alone has mapped
  pthread_sigmask(SIG_UNBLOCK, set, NULL);
  while (!stop) usleep(1000);
  return NULL;
}
static void* lets_nothing_in(void* unused) {
  while (!stop) usleep(1000);
  return unused;
}
static void expect(const char* what, pthread_t thread) {
  while (!handled) usleep(1000);
  printf("%s: %d, there %d, by kill %d, value %d\n", what, handled, pthread_equal(who, thread), by_kill, value);
  handled = 0;
}

int main(void) {
  sigset_t set, all;
  const struct sigaction action = {.sa_sigaction = on_any, .sa_flags = SA_SIGINFO};
  sigemptyset(&set);
  sigaddset(&set, SIGTERM), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGALRM);
  sigaction(SIGTERM, &action, NULL), sigaction(SIGUSR1, &action, NULL), sigaction(SIGALRM, &action, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pthread_t thread, other;
  pthread_create(&other, NULL, lets_nothing_in, NULL);
  pthread_create(&thread, NULL, lets_in, &set);
  kill(getpid(), SIGTERM);
  expect("by main", thread);
  char command[64];
  sprintf(command, "kill -USR1 %d", getpid());
  system(command);
  expect("from outside", thread);
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7});
  expect("queued", thread);
  ualarm(1000, 0);
  while (!handled) usleep(1000);
  printf("alarm: %d, there %d\n", handled, pthread_equal(who, thread));
  stop = 1;
  pthread_join(thread, NULL);
  pthread_join(other, NULL);
  return 0;
}
