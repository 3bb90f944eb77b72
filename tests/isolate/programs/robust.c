// Robust mutexes whose owner ends, priority-inheritance and plain ones, timeouts on both clocks, errors.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t robust, inherit, protect;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond;
static sem_t sem;
static long by_inherit, by_protect, by_robust;

// Prints "name number": one call, one line, since the order in which arguments are evaluated is anybody's.
static void tell(const char* name, int value) { printf("%s %d\n", name, value); }

static struct timespec soon(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_nsec += 20000000;
  if (t.tv_nsec >= 1000000000) t.tv_sec += 1, t.tv_nsec -= 1000000000;
  return t;
}

static void* dies_holding(void* unused) {
  pthread_mutex_lock(&robust);
  pthread_exit(unused);
}
static void* counts(void* unused) {
  for (int i = 0; i < 20000; ++i) {
    pthread_mutex_lock(&inherit);
    ++by_inherit;
    pthread_mutex_unlock(&inherit);
    pthread_mutex_lock(&protect);
    ++by_protect;
    pthread_mutex_unlock(&protect);
    pthread_mutex_lock(&robust);
    ++by_robust;
    pthread_mutex_unlock(&robust);
  }
  return unused;
}
static void* fails_to_lock(void* unused) {
  struct timespec t = soon(CLOCK_REALTIME), m = soon(CLOCK_MONOTONIC);
  tell("timed", pthread_mutex_timedlock(&robust, &t) == ETIMEDOUT);
  m = soon(CLOCK_MONOTONIC);
  tell("clock", pthread_mutex_clocklock(&inherit, CLOCK_MONOTONIC, &m) == ETIMEDOUT);
  tell("try inherit", pthread_mutex_trylock(&inherit) == EBUSY);
  tell("try robust", pthread_mutex_trylock(&robust) == EBUSY);
  t = soon(CLOCK_REALTIME);
  tell("try write", pthread_rwlock_trywrlock(&rwlock) == EBUSY);
  tell("timed read", pthread_rwlock_timedrdlock(&rwlock, &t) == ETIMEDOUT);
  tell("unlock", pthread_mutex_unlock(&robust) == EPERM);
  return unused;
}

static void run(void* (*work)(void*), int threads) {
  pthread_t t[8];
  for (int i = 0; i < threads; ++i) pthread_create(&t[i], NULL, work, NULL);
  for (int i = 0; i < threads; ++i) pthread_join(t[i], NULL);
}

int main(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust, &a);
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&inherit, &a);
  pthread_mutex_init(&protect, NULL);
  pthread_condattr_t ca;
  pthread_condattr_init(&ca);
  pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
  pthread_cond_init(&cond, &ca);
  sem_init(&sem, 0, 0);
  run(dies_holding, 1);
  tell("owner died", pthread_mutex_lock(&robust) == EOWNERDEAD);
  tell("consistent", pthread_mutex_consistent(&robust));
  tell("unlock", pthread_mutex_unlock(&robust));
  run(counts, 4);
  printf("counts %ld %ld %ld\n", by_inherit, by_protect, by_robust);
  pthread_mutex_lock(&robust);
  pthread_mutex_lock(&inherit);
  pthread_rwlock_wrlock(&rwlock);
  run(fails_to_lock, 1);
  pthread_rwlock_unlock(&rwlock);
  pthread_mutex_unlock(&inherit);
  struct timespec t = soon(CLOCK_MONOTONIC);
  tell("cond", pthread_cond_timedwait(&cond, &robust, &t) == ETIMEDOUT);
  t = soon(CLOCK_REALTIME);
  const int waited = sem_timedwait(&sem, &t);
  tell("sem", waited == -1 && errno == ETIMEDOUT);
  pthread_mutex_unlock(&robust);
  run(dies_holding, 1);
  tell("died again", pthread_mutex_lock(&robust) == EOWNERDEAD);
  pthread_mutex_unlock(&robust);
  tell("not recoverable", pthread_mutex_lock(&robust) == ENOTRECOVERABLE);
  return 0;
}
