// Handlers of signals that a terminal sends: what threads see of them, and what they leave to the processes they start.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static pthread_barrier_t turn;
static volatile int interrupted, ended, hung_up;
static pthread_t hung_up_thread;
static void on_int(int n) { ++interrupted; }
static void on_term(int n) { ++ended; }
static void on_hup(int n) { hung_up_thread = pthread_self(), ++hung_up; }

static int status_of(pid_t child) {
  int status;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
static void start_others(void) {
  struct sigaction now;
  sigaction(SIGTERM, NULL, &now);
  printf("the program's: %d, %d\n", now.sa_handler == on_term, !(now.sa_flags & SA_SIGINFO));
  char* const shell[] = {"sh", "-c", "kill -TERM $$; kill -INT $$; exit 3", NULL};
  pid_t child;
  posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environ);
  printf("spawned: %d\n", status_of(child));
  child = vfork();
  if (child == 0) execv("/bin/sh", shell), _exit(9);
  printf("shared: %d\n", status_of(child));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    raise(SIGTERM);
    kill(getpid(), SIGINT);
    _exit(10 * ended + interrupted);
  }
  printf("forked: %d\n", status_of(child));
  printf("system: %d\n", WEXITSTATUS(system("exit 4")));
}
/* A signal for one thread ends the call that it waits in: the usual way to stop such a thread. */
static int pipe_ends[2];
static volatile pid_t reader;
static void* read_for_ever(void* unused) {
  char nothing;
  reader = gettid();
  const ssize_t got = read(pipe_ends[0], &nothing, 1);
  printf("read: %ld %d\n", (long)got, errno == EINTR);
  return unused;
}
static void stop_reader(void) {
  const struct sigaction action = {.sa_handler = on_hup};
  sigaction(SIGHUP, &action, NULL);
  pthread_t thread;
  pipe(pipe_ends);
  pthread_create(&thread, NULL, read_for_ever, NULL);
  while (!reader) sched_yield();
  usleep(20000);
  while (hung_up < 2 || pthread_tryjoin_np(thread, NULL) != 0) pthread_kill(thread, SIGHUP), usleep(20000);
}
static void* work(void* unused) {
  start_others();
  pthread_kill(pthread_self(), SIGHUP);
  printf("to the thread: %d %d\n", hung_up, hung_up && pthread_equal(hung_up_thread, pthread_self()));
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  usleep(1000);
  return unused;
}

int main(void) {
  setpgid(0, 0);
  signal(SIGINT, on_int);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_t thread, first;
  pthread_create(&first, NULL, (void* (*)(void*))pause, NULL);
  signal(SIGHUP, on_hup);
  signal(SIGTERM, on_term);
  pthread_create(&thread, NULL, work, NULL);
  pthread_barrier_wait(&turn);
  stop_reader();
  kill(0, SIGINT);
  kill(getpid(), SIGTERM);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  printf("interrupted: %d, ended: %d\n", interrupted, ended);
  return 0;
}
