// Handlers that block whatever there is, the signals that libc keeps for itself too, do what all threads must know of.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int stop;
static void does_nothing(int n) {}
static void changes_actions(int n) {
  const struct sigaction action = {.sa_handler = does_nothing};
  for (int i = 0; i < 5; ++i) sigaction(SIGUSR2, &action, NULL);
}
static void* runs(void* unused) {
  while (!stop) usleep(50);
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_handler = changes_actions};
  pthread_t threads[2];
  memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);  // and once more, when there are others
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, runs, NULL);
  for (int i = 0; i < 1000; ++i) {
    if (i == 500) sigaction(SIGUSR1, &action, NULL);
    pthread_kill(threads[i % 2], SIGUSR1);
    usleep(100);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("done\n");
  return 0;
}
