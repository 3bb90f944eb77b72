// A deadline before the clock's beginning is over, and waiting for a very long time is waiting.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, robust, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t turn;
static sem_t none;
static sigset_t set;

static void* holds(void* unused) {
  pthread_mutex_lock(&held), pthread_mutex_lock(&robust), pthread_rwlock_wrlock(&written);
  pthread_barrier_wait(&turn);
  for (;;) pause();
}
static int error_of(int result) { return result ? errno : 0; }

/// Each of them once, from the only call to the other of its kind.
static void wait_until(pthread_t thread, const struct timespec* before) {
  const clockid_t clock = CLOCK_MONOTONIC;
  const int answers[] = {
      pthread_mutex_timedlock(&held, before), pthread_mutex_clocklock(&held, clock, before), pthread_mutex_timedlock(&robust, before),
      pthread_cond_timedwait(&never, &own, before), pthread_cond_clockwait(&never, &own, clock, before),
      pthread_rwlock_timedrdlock(&written, before), pthread_rwlock_timedwrlock(&written, before),
      pthread_rwlock_clockrdlock(&written, clock, before), pthread_rwlock_clockwrlock(&written, clock, before),
      error_of(sem_timedwait(&none, before)), error_of(sem_clockwait(&none, clock, before)),
      pthread_timedjoin_np(thread, NULL, before), pthread_clockjoin_np(thread, NULL, clock, before)};
  for (int i = 0; i < sizeof answers / sizeof *answers; ++i) printf("%s ", answers[i] == ETIMEDOUT ? "over" : strerror(answers[i]));
  printf("\n");
}

static void* waits_for_signals(void* unused) {
  const long seconds[] = {-1, -10000000000000, 18446744074, LONG_MAX};
  for (int i = 0; i < 4; ++i) {
    const struct timespec time = {seconds[i], 0};
    errno = 0;
    if (seconds[i] > 0) pthread_barrier_wait(&turn);
    const int taken = sigtimedwait(&set, NULL, &time);
    printf("%d %s\n", taken == SIGUSR1, strerror(errno));
  }
  return unused;
}

int main(void) {
  pthread_t thread, other;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust, &attributes);
  pthread_barrier_init(&turn, NULL, 2);
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_mutex_lock(&own);
  pthread_create(&thread, NULL, holds, NULL);
  pthread_barrier_wait(&turn);
  const struct timespec before = {-1, 0}, long_before = {LONG_MIN, 0};
  wait_until(thread, &before);
  wait_until(thread, &long_before);
  pthread_create(&other, NULL, waits_for_signals, NULL);
  for (int i = 0; i < 2; ++i) pthread_barrier_wait(&turn), usleep(20000), kill(getpid(), SIGUSR1);
  pthread_join(other, NULL);
  return 0;
}
