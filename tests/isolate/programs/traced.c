// News of children that the program traces, or that end without a signal, are the program's: nobody else takes them.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void* sleeps(void* unused) { return usleep(1000), unused; }

static void trace(void) {
  const pid_t child = fork();
  int status = 0;
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    for (int i = 0; i < 3; ++i) raise(SIGUSR1);
    _exit(7);
  }
  for (int stops = 0;; ++stops) {
    usleep(2000);  // long enough for somebody else to take it
    if (waitpid(child, &status, __WALL) != child) return (void)perror("waitpid");
    if (WIFEXITED(status)) return (void)printf("stops: %d, status %d\n", stops, WEXITSTATUS(status));
    pthread_t thread;  // threads come and go while a child is stopped
    pthread_create(&thread, NULL, sleeps, NULL);
    pthread_join(thread, NULL);
    ptrace(PTRACE_CONT, child, NULL, NULL);
  }
}

static void make_silent_child(void) {
  const pid_t child = syscall(SYS_clone, 0, 0, 0, 0, 0);
  int status = 0;
  if (child == 0) _exit(9);
  usleep(2000);
  printf("silent: %d", waitpid(child, &status, __WCLONE) == child);
  printf(", status %d\n", WEXITSTATUS(status));
}

int main(void) {
  pthread_t thread;
  signal(SIGUSR1, SIG_IGN);
  pthread_create(&thread, NULL, sleeps, NULL);
  for (int i = 0; i < 3; ++i) trace(), make_silent_child();
  pthread_join(thread, NULL);
}
