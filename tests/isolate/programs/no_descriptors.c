// A program that has as many descriptors as it may have forks, and waits for the children of its threads.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t turn;
static pid_t start(int code) {
  const pid_t child = fork();
  if (child == 0) usleep(20000), _exit(code);
  return child;
}
static void* forks(void* out) {
  for (int i = 0; i < 2; ++i) ((pid_t*)out)[i] = start(3 + i);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return NULL;
}

int main(void) {
  struct rlimit limit;
  pthread_t thread;
  pid_t theirs[2];
  int status = 0;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &limit);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, forks, theirs);
  pthread_barrier_wait(&turn);
  while (open("/dev/null", O_RDONLY) >= 0) continue;
  const pid_t own = start(7);
  printf("%d", waitpid(own, &status, 0) == own);
  printf(" %d\n", WEXITSTATUS(status));
  printf("%d", waitpid(theirs[1], &status, 0) == theirs[1]);
  printf(" %d\n", WEXITSTATUS(status));
  printf("%d", wait(&status) == theirs[0]);
  printf(" %d\n", WEXITSTATUS(status));
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return 0;
}
