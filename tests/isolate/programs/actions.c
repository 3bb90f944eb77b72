// What threads see of each other's signal actions: SA_RESETHAND, values that come with signals, and who handles what the group is sent.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int handled, value;
static pthread_barrier_t turn;

static void on_any(int n) { ++handled; }
static void with_value(int n, siginfo_t* info, void* context) { value = info->si_value.sival_int; }

static void set(int n, void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  sigaction(n, &action, NULL);
}
static int is_default(int n) {
  struct sigaction now;
  sigaction(n, NULL, &now);
  return now.sa_handler == SIG_DFL;
}
static void* raise_it(void* n) { return raise((long)n), NULL; }
static void in_thread(void* (*function)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, argument);
  pthread_join(thread, NULL);
}

static void once(void) {
  set(SIGURG, on_any, SA_RESETHAND);  // ignored by default
  raise(SIGURG);
  printf("once: %d, default again: %d\n", handled, is_default(SIGURG));
  in_thread(raise_it, (void*)SIGURG);
  set(SIGURG, on_any, SA_RESETHAND);
  in_thread(raise_it, (void*)SIGURG);
  printf("twice: %d, default again: %d\n", handled, is_default(SIGURG));
  raise(SIGURG);
  set(SIGURG, on_any, 0);
  raise(SIGURG);
  in_thread(raise_it, (void*)SIGURG);
  printf("four times: %d\n", handled);
}
static void ends_by_the_second(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    set(SIGUSR1, on_any, SA_RESETHAND);
    in_thread(raise_it, (void*)SIGUSR1);
    raise(SIGUSR1);
    _exit(3);
  }
  int status;
  waitpid(child, &status, 0);
  printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}
static void* queue_to_myself(void* unused) {
  struct sigaction action = {.sa_sigaction = with_value, .sa_flags = SA_SIGINFO};
  sigaction(SIGTERM, &action, NULL);
  pthread_sigqueue(pthread_self(), SIGTERM, (union sigval){.sival_int = 42});
  printf("value: %d\n", value);
  return unused;
}
static void* wait_for_main(void* unused) {
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  usleep(1000);
  return unused;
}
static void group(void) {
  pthread_t thread;
  setpgid(0, 0);
  set(SIGWINCH, on_any, 0);
  set(SIGCONT, on_any, 0);
  pthread_create(&thread, NULL, wait_for_main, NULL);
  pthread_barrier_wait(&turn);
  handled = 0;
  kill(0, SIGWINCH);
  kill(0, SIGCONT);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  printf("by the group: %d\n", handled);
}

int main(void) {
  pthread_t other;
  pthread_barrier_init(&turn, NULL, 2);
  set(SIGHUP, on_any, SA_RESETHAND);  // before the first thread
  pthread_create(&other, NULL, (void* (*)(void*))pause, NULL);
  in_thread(raise_it, (void*)SIGHUP);
  printf("from before: %d, default again: %d\n", handled, is_default(SIGHUP));
  handled = 0;
  once();
  ends_by_the_second();
  in_thread(queue_to_myself, NULL);
  group();
  return 0;
}
