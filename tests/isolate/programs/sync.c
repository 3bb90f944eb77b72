// Every kind of synchronisation object, static and dynamic, from four threads; prints counts that must come out
// exactly.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 4, kRounds = 20000 };

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t made;
static pthread_cond_t ready_changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t posted;
static pthread_key_t key;
static long plain_count, recursive_count, made_count, once_count, table, spin_count, serial_count;
static int ready, destroyed;
static __thread int local = 7;

static void count_once(void) { ++once_count; }
static void destroy_value(void* p) {
  __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
  free(p);
}

static void* work(void* argument) {
  int* on_mains_stack = argument;
  if (local != 7) printf("thread-local variable starts at %d, not 7\n", local);
  local = 9;
  pthread_setspecific(key, strdup("value"));
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&plain);
    ++plain_count;
    pthread_mutex_unlock(&plain);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    ++recursive_count;
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    while (pthread_mutex_trylock(&made) != 0) sched_yield();
    ++made_count;
    pthread_mutex_unlock(&made);
    if (i % 4 == 0) {
      pthread_rwlock_wrlock(&table_lock);
      ++table;
    } else {
      pthread_rwlock_rdlock(&table_lock);
    }
    pthread_rwlock_unlock(&table_lock);
    pthread_spin_lock(&spin);
    ++spin_count;
    pthread_spin_unlock(&spin);
  }
  __atomic_fetch_add(on_mains_stack, 1, __ATOMIC_SEQ_CST);
  pthread_once(&once, count_once);
  pthread_mutex_lock(&plain);
  while (!ready) pthread_cond_wait(&ready_changed, &plain);
  pthread_mutex_unlock(&plain);
  for (int i = 0; i < 100; ++i)
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
      __atomic_fetch_add(&serial_count, 1, __ATOMIC_SEQ_CST);
  sem_post(&posted);
  if (local != 9) printf("thread-local variable became %d, not 9\n", local);
  return strdup("result");
}

int main(void) {
  int on_stack = 0;
  pthread_t threads[kThreads];
  pthread_mutexattr_t checking;
  pthread_mutexattr_init(&checking);
  pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&made, &checking);
  pthread_key_create(&key, destroy_value);
  pthread_barrier_init(&barrier, NULL, kThreads);
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  sem_init(&posted, 0, 0);
  local = 8;
  pthread_mutex_lock(&plain);  // held over the first pthread_create
  pthread_rwlock_wrlock(&table_lock);
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, work, &on_stack) != 0) return 2;
  pthread_rwlock_unlock(&table_lock);
  pthread_mutex_unlock(&plain);
  pthread_mutex_lock(&plain);
  ready = 1;
  pthread_cond_broadcast(&ready_changed);
  pthread_mutex_unlock(&plain);
  for (int i = 0; i < kThreads; ++i) sem_wait(&posted);
  for (int i = 0; i < kThreads; ++i) {
    void* result = NULL;
    if (pthread_join(threads[i], &result) != 0 || strcmp(result, "result") != 0) printf("thread %d: wrong result\n", i);
    free(result);
  }
  pthread_barrier_destroy(&barrier);
  printf("plain %ld recursive %ld made %ld table %ld spin %ld once %ld serial %ld stack %d destroyed %d local %d\n",
         plain_count, recursive_count, made_count, table, spin_count, once_count, serial_count, on_stack, destroyed,
         local);
  printf("unlock by a stranger: %d, relock: ", pthread_mutex_unlock(&made));
  pthread_mutex_lock(&made);
  printf("%d\n", pthread_mutex_lock(&made));
  return plain_count == kThreads * kRounds ? 0 : 1;
}
