// Handlers for crashes: what they block, that one with SA_RESETHAND runs once, and that the program then ends by the signal.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int runs, usr1_came, usr1_came_within;
static sigjmp_buf back;

static void on_usr1(int n) { usr1_came = 1; }
static void leaves(int n) {
  raise(SIGUSR1);
  usr1_came_within = usr1_came;
  siglongjmp(back, 1);
}
static void tells(int n) {
  if (++runs > 1) _exit(9);
  write(1, "told\n", 5);
}
static void* work(void* unused) {
  if (sigsetjmp(back, 1) == 0) *(volatile int*)16 = 1;
  printf("blocked in the handler: %d, later: %d\n", !usr1_came_within, usr1_came);
  signal(SIGSEGV, SIG_IGN);
  raise(SIGSEGV);
  puts("ignored");
  fflush(stdout);
  struct sigaction action = {.sa_handler = tells, .sa_flags = SA_RESETHAND};
  sigaction(SIGSEGV, &action, NULL);
  *(volatile int*)16 = 1;
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  signal(SIGUSR1, on_usr1);
  struct sigaction action = {.sa_handler = leaves};
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGSEGV, &action, NULL);
  pthread_create(&thread, NULL, strcmp(arguments[1], "thread") == 0 ? work : (void* (*)(void*))pause, NULL);
  if (strcmp(arguments[1], "main") == 0) work(NULL);
  pthread_join(thread, NULL);
}
