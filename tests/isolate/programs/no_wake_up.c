// A thread that waits for a condition handles signals and goes on waiting, as with glibc.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waits, is_changed;
static volatile sig_atomic_t handled, is_through;

static void on_signal(int number) { ++handled; }

static void* wait_once(void* timed) {
  struct timespec late;
  clock_gettime(CLOCK_REALTIME, &late);
  late.tv_sec += 3600;
  pthread_mutex_lock(&mutex);
  waits = 1;
  const int error = timed ? pthread_cond_timedwait(&changed, &mutex, &late) : pthread_cond_wait(&changed, &mutex);
  is_through = 1;
  printf("%s, changed %d\n", strerror(error), is_changed);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void interrupt(pthread_t thread) {
  for (int is_waiting = 0; !is_waiting; sched_yield()) pthread_mutex_lock(&mutex), is_waiting = waits, pthread_mutex_unlock(&mutex);
  for (int i = 1; i <= 100 && !is_through; ++i) {
    pthread_kill(thread, SIGUSR1);
    while (handled < i && !is_through) sched_yield();
  }
  pthread_mutex_lock(&mutex);
  is_changed = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  for (long timed = 0; timed < 2; ++timed) {
    pthread_t thread;
    waits = is_changed = handled = is_through = 0;
    pthread_create(&thread, NULL, wait_once, (void*)timed);
    interrupt(thread);
    pthread_join(thread, NULL);
  }
}
