// Children made by the system calls themselves have memory of their own.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int value = 1;
static volatile int number;
static void* nothing(void* unused) { return unused; }

static void look(const char* how, long pid) {
  int status = 0;
  if (pid == 0) {
    value = 2;
    _exit(number ? 6 : 5);
  }
  const pid_t got = waitpid(pid, &status, 0);
  printf("%s: %d, status %d, value %d, number %d\n", how, got == pid, WEXITSTATUS(status), value, number);
  fflush(stdout);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  look("fork", syscall(SYS_fork));
  look("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  look("clone, told its number", syscall(SYS_clone, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, 0, &number, 0));
  struct clone_args wanted = {.exit_signal = SIGCHLD};
  look("clone3", syscall(SYS_clone3, &wanted, 64));
  int pidfd = -1;
  wanted.flags = CLONE_PIDFD;
  wanted.pidfd = (uintptr_t)&pidfd;
  look("clone3 with a descriptor", syscall(SYS_clone3, &wanted, sizeof wanted));
  printf("descriptor: %d\n", pidfd >= 0);
}
