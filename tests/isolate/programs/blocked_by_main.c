// Main blocks a signal that nobody handles, and another thread does not: it ends the program.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void* sleeps(void* unused) {
  for (;;) pause();
  return unused;
}

int main(void) {
  pthread_t thread;
  sigset_t set;
  pthread_create(&thread, NULL, sleeps, NULL);
  sigemptyset(&set), sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGTERM);
  for (int i = 0; i < 100; ++i) usleep(100000);
}
