// A thread that changes its user by itself: it still ends with the program, and the program ends where all of them can no longer agree.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int until[2];
static pthread_barrier_t turn;

static int ends_with_program(void) {
  int signal = 0;
  syscall(SYS_prctl, PR_GET_PDEATHSIG, &signal);  // the thread's own
  return signal == SIGKILL;
}

static void* changes_itself(void* unused) {
  int ends = ends_with_program();
  setfsuid(12345), ends += ends_with_program();
  setfsuid(getuid()), setfsgid(12345), ends += ends_with_program();
  syscall(SYS_setresuid, -1, 12345, -1), ends += ends_with_program();
  return (void*)(long)ends;
}

static void* is_another(void* unused) {
  char byte;
  syscall(SYS_setresuid, 12345, 12345, 12345);
  pthread_barrier_wait(&turn);
  read(until[0], &byte, 1);
  return NULL;
}

/// What ends it is told by the parent, so no output is lost.
static void disagree(void) {
  pthread_t thread;
  close(until[1]);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, is_another, NULL);
  pthread_barrier_wait(&turn);
  _exit(setresuid(23456, 23456, 23456) == 0);
}

int main(void) {
  pthread_t thread;
  void* ends;
  int status;
  pipe(until);
  if (fork() == 0) disagree();
  wait(&status);
  close(until[1]);
  printf("cannot agree: %d\n", getuid() != 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  pthread_create(&thread, NULL, changes_itself, NULL);
  pthread_join(thread, &ends);
  printf("ends with the program: %ld\n", (long)ends);
}
