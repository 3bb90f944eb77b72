// Which process takes in the children of those that end is said by any thread, for the program; also while a thread ends that has children.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subreaper.h"

static void* says(void* wanted) { return prctl(PR_SET_CHILD_SUBREAPER, (long)wanted), NULL; }
static void* asks(void* answer) { return prctl(PR_GET_CHILD_SUBREAPER, answer), NULL; }
static void* asks_nowhere(void* error) { return *(int*)error = prctl(PR_GET_CHILD_SUBREAPER, (int*)8) ? errno : 0, NULL; }
static void in_thread(void* (*what)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, what, argument);
  pthread_join(thread, NULL);
}

/// How many children there are to wait for when one has ended and left one.
static int left(void) {
  const pid_t child = fork();
  int count = 0;
  if (child == 0) {
    if (fork() == 0) usleep(20000);
    _exit(0);
  }
  while (wait(NULL) > 0) ++count;
  return count;
}
static void tell(void) {
  int here = -1, there = -1;
  asks(&here), in_thread(asks, &there);
  printf("%d %d: %d\n", here, there, left());
}

static void* leaves_a_child(void* pid) {
  if ((*(pid_t*)pid = fork()) == 0) pause();
  return NULL;
}

int main(void) {
  pthread_t thread;
  tell();
  for (long wanted = 1; wanted >= 0; --wanted) in_thread(says, (void*)wanted), tell();
  for (int i = 0; i < 100; ++i) {
    int is_wanted = -1;
    pid_t child;
    pthread_create(&thread, NULL, leaves_a_child, &child);
    if (i % 2) usleep(i * 10);
    says((void*)1L);
    pthread_join(thread, NULL);
    usleep(1000);
    asks(&is_wanted);
    if (is_wanted != 1) printf("forgotten\n");
    says((void*)0L);
    kill(child, SIGKILL), waitpid(child, NULL, 0);
  }
  wait_until_it_takes_in_none();
  tell();
  int here = 0, there = 0;
  asks_nowhere(&here), in_thread(asks_nowhere, &there);
  printf("%d %d\n", here == EFAULT, there == EFAULT);
  return 0;
}
