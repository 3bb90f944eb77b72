// What reaches one process of several, twice each.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* call;
static void* does(void* unused) {
  for (int i = 0; i < 2; i++) {
    if (!strcmp(call, "setsid")) setsid();
    if (!strcmp(call, "setpgid")) setpgid(0, 0);
  }
  if (!strcmp(call, "raise(SIGSTOP)")) raise(SIGSTOP);
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  call = arguments[1];
  pthread_create(&thread, NULL, does, NULL);
  while (pthread_tryjoin_np(thread, NULL) != 0) pthread_kill(thread, SIGCONT), usleep(1000);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  setpgid(child, child);  // another's: nothing to tell of
  waitpid(child, NULL, 0);
  printf("went on\n");
  return 0;
}
