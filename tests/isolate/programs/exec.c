// exec from a thread, or from main while threads run, by each of the calls: the process id stays, the threads end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char** environ;
static char before[32];
static const char* call;
static void become(void) {
  execl("/nowhere/to/be/found", "x", NULL);
  printf("failed as it should\n");
  fflush(stdout);
  static const char look[] = "test $$ = $1 && echo same process; read left < /proc/$$/task/$$/children; echo \"left: $left\"; exit 11";
  char* const shell[] = {"sh", "-c", (char*)look, "sh", before, NULL};
  if (!strcmp(call, "execve")) execve("/bin/sh", shell, environ);
  if (!strcmp(call, "fexecve")) fexecve(open("/bin/sh", O_RDONLY | O_CLOEXEC), shell, environ);
  if (!strcmp(call, "execveat")) execveat(open("/bin", O_PATH | O_CLOEXEC), "sh", shell, environ, 0);
  if (!strcmp(call, "syscall")) syscall(SYS_execve, "/bin/sh", shell, environ);
}
static void* work(void* in_thread) {
  if (in_thread) become();
  for (;;) pause();
  return NULL;
}

int main(int count, char** arguments) {
  const int in_thread = !strcmp(arguments[1], "thread");
  call = arguments[2];
  snprintf(before, sizeof before, "%d", getpid());
  pthread_t thread, idle;
  pthread_create(&idle, NULL, work, NULL);
  pthread_create(&thread, NULL, work, in_thread ? arguments : NULL);
  usleep(10000);
  if (!in_thread) become();
  pthread_join(thread, NULL);
  return 1;
}
