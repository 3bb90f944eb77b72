// getppid in threads and in their children, compared with what the parent takes for its own number.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t parent;

static void* none(void* unused) { return unused; }
static void* look(void* who) {
  const pid_t program = getpid();
  printf("%s: %d %d\n", (char*)who, getppid() == parent, syscall(SYS_getppid) == parent);
  fflush(stdout);
  int status;
  if (fork() == 0) {
    pthread_t thread;
    printf("child: %d\n", getppid() == program);
    fflush(stdout);
    if (fork() == 0) {
      printf("child's child: %d\n", getppid() != program);
      fflush(stdout);
      _exit(0);
    }
    wait(&status);
    parent = program;
    pthread_create(&thread, NULL, none, NULL);
    pthread_join(thread, NULL);
    printf("child with a thread: %d\n", getppid() == program);
    fflush(stdout);
    _exit(0);
  }
  wait(&status);
  if (vfork() == 0) _exit(getppid() == program);
  wait(&status);
  printf("child that shares memory: %d\n", WEXITSTATUS(status));
  return NULL;
}
static void* in_thread(void* who) {
  pthread_t thread;
  pthread_create(&thread, NULL, look, who);
  pthread_join(thread, NULL);
  return NULL;
}

int main(void) {
  parent = getppid();
  in_thread("thread");
  look("main");
  const pid_t program = getpid();
  fflush(stdout);
  if (fork() == 0) {
    parent = program;
    in_thread("thread of a child");
    fflush(stdout);
    _exit(0);
  }
  wait(NULL);
  return 0;
}
