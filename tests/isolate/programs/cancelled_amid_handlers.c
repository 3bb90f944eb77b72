// A thread is cancelled while a handler runs over its wait, or just before: cancelled_amid_handlers WAIT (cond, semaphore or join).
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;
static pthread_t other;
static const char* wait;

static void is_busy(int signal) {
  struct timespec begun, now;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 2000000);
}
static void* stays(void* unused) {
  for (;;) pause();
}
static void unlock(void* held) { pthread_mutex_unlock(held); }
static void* waits(void* unused) {
  if (strcmp(wait, "semaphore") == 0) while (sem_wait(&none)) continue;
  if (strcmp(wait, "join") == 0) pthread_join(other, NULL);
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock, &mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
  pthread_cleanup_pop(1);
}

int main(int count, char** arguments) {
  wait = arguments[1];
  sem_init(&none, 0, 0);
  pthread_create(&other, NULL, stays, NULL);
  const struct sigaction restarts = {.sa_handler = is_busy, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &restarts, NULL);
  int left = 0;
  for (int round = 0; round < 20 && !left; ++round) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    usleep(2000);
    pthread_kill(thread, SIGUSR1);
    if (round % 2) usleep(1000);
    pthread_cancel(thread);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    left += pthread_timedjoin_np(thread, NULL, &end) != 0;
  }
  printf("left waiting: %d\n", left);
  fflush(stdout);
  _exit(0);
}
