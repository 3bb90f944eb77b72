// A thread is sent a signal as soon as it is made, whose handler leaves it: it has a result, whether its function has begun or not.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void leaves(int signal) { pthread_exit("left"); }
static void* stays(void* unused) {
  for (;;) usleep(1000);
}

int main(void) {
  const struct sigaction action = {.sa_handler = leaves};
  sigaction(SIGUSR1, &action, NULL);
  int left = 0;
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    void* result = NULL;
    pthread_create(&thread, NULL, stays, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    left += result && *(char*)result == 'l';
  }
  printf("left: %d\n", left);
  return 0;
}
