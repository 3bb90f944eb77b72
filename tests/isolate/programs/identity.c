// Who a thread is: pthread_self, getpid, names, attributes, waitpid(-1) that sees no threads, keys, cleanup handlers.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t main_pid;
static volatile sig_atomic_t handled;
static sem_t through;
static void on_signal(int n) { handled = n; }
static void cleanup(void* text) {
  printf("cleanup %s\n", (const char*)text);
  if (!strcmp(text, "outer")) sem_post(&through);
}

static void* exits_early(void* argument) {
  pthread_cleanup_push(cleanup, "outer");
  pthread_cleanup_push(cleanup, "inner");
  pthread_exit(argument);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}

static void* look(void* argument) {
  pthread_t* made = argument;
  int local;
  printf("pid same: %d, self equal: %d\n", getpid() == main_pid, pthread_equal(pthread_self(), *made));
  pthread_setname_np(pthread_self(), "worker");
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  printf("name %s\n", name);
  pthread_attr_t attributes;
  void* low;
  size_t bytes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  printf("local on own stack: %d\n", (char*)&local >= (char*)low && (char*)&local < (char*)low + bytes);
  signal(SIGUSR1, on_signal);
  printf("kill self: %d\n", pthread_kill(pthread_self(), SIGUSR1));
  printf("handled: %d\n", handled == SIGUSR1);
  printf("join self: %d\n", pthread_join(pthread_self(), NULL) == EDEADLK);
  return NULL;
}

int main(void) {
  main_pid = getpid();
  sem_init(&through, 0, 0);
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, look, &thread);
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, exits_early, (void*)42);
  pthread_join(thread, &result);
  printf("result %ld\n", (long)result);
  sem_wait(&through);
  const int waited = waitpid(-1, NULL, 0);
  printf("waitpid: %d, no children: %d\n", waited, errno == ECHILD);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  int error = pthread_create(&thread, &attributes, exits_early, NULL);
  sem_wait(&through);
  printf("detached: %d\n", error);
  char* own = aligned_alloc(4096, 256 << 10);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE);
  pthread_attr_setstack(&attributes, own, 256 << 10);
  error = pthread_create(&thread, &attributes, look, &thread);
  pthread_join(thread, NULL);
  printf("own stack: %d\n", error);
  memset(own, 0, 256 << 10);
  free(own);
  return 0;
}
