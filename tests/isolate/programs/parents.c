// getppid in threads and in their children, compared with what the parent takes for its own number; and programs that threads start,
// which signal the program that started them.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t parent;
static volatile int terms;
static void on_term(int n) { ++terms; }
static void start_program(pid_t program) {
  char command[80];
  sprintf(command, "test $PPID = %d && kill -TERM $PPID", program);
  const int before = terms, status = system(command);
  for (int i = 0; terms == before && i < 5000; ++i) usleep(1000);
  printf("started program: %d %d\n", status, terms - before);
  fflush(stdout);
}

static void* none(void* unused) { return unused; }
static void* look(void* who) {
  const pid_t program = getpid();
  printf("%s: %d %d\n", (char*)who, getppid() == parent, syscall(SYS_getppid) == parent);
  fflush(stdout);
  start_program(program);
  int status;
  if (fork() == 0) {
    start_program(getpid());
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
  signal(SIGTERM, on_term);
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
