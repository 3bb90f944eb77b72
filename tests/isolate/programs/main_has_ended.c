// Main lets a signal in and has ended: a thread that waits for it takes it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t set;
static void* waits(void* unused) {
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  usleep(200000);
  const int program = getpid();
  if (fork() == 0) _exit(kill(program, SIGTERM));
  printf("waited for: %d\n", sigwaitinfo(&set, NULL) == SIGTERM);
  wait(NULL);
  return unused;
}

int main(void) {
  sigemptyset(&set), sigaddset(&set, SIGTERM);
  pthread_t thread;
  pthread_create(&thread, NULL, waits, NULL);
  usleep(50000);
  pthread_exit(NULL);
}
