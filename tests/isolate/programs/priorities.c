// Scheduling that is changed later or left to the creator, and the holder of a mutex who tries to take it once more.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

static sem_t end;

static void* waits(void* unused) { return sem_wait(&end), unused; }

static void* tells(void* unused) {
  struct sched_param now;
  sched_getparam(0, &now);
  return printf("policy %d, priority %d\n", sched_getscheduler(0), now.sched_priority), unused;
}

static void changed_later(void) {
  struct sched_param parameters = {5};
  pthread_attr_t now;
  pthread_t thread;
  int policy = -1, inherits = -1;
  pthread_create(&thread, NULL, waits, NULL);
  printf("changed: %s\n", strerror(pthread_setschedparam(thread, SCHED_FIFO, &parameters)));  // or not permitted
  pthread_getattr_np(thread, &now);
  pthread_attr_getschedpolicy(&now, &policy), pthread_attr_getschedparam(&now, &parameters), pthread_attr_getinheritsched(&now, &inherits);
  printf("policy %d, priority %d, inherits %d\n", policy, parameters.sched_priority, inherits == PTHREAD_INHERIT_SCHED);
  sem_post(&end), pthread_join(thread, NULL);
}

static void left_to_creator(int priority) {
  struct sched_param own = {priority};
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), pthread_attr_setschedpolicy(&attributes, SCHED_RR);
  sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &own);
  const int error = pthread_create(&thread, &attributes, tells, NULL);
  if (error) printf("creator's priority %d: %s\n", priority, strerror(error));
  else pthread_join(thread, NULL);
}

static void tried_again(int type, int protocol, int robust) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutexattr_setprotocol(&attributes, protocol), pthread_mutexattr_setrobust(&attributes, robust);
  pthread_mutex_init(&mutex, &attributes);
  const int locked = pthread_mutex_lock(&mutex);
  if (locked == 0) printf("type %d, protocol %d, robust %d: %s\n", type, protocol, robust, strerror(pthread_mutex_trylock(&mutex)));
}

int main(void) {
  sem_init(&end, 0, 0);
  changed_later();
  left_to_creator(0), left_to_creator(4), left_to_creator(0);
  for (int type = PTHREAD_MUTEX_NORMAL; type <= PTHREAD_MUTEX_ERRORCHECK; ++type) {
    tried_again(type, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED), tried_again(type, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
    tried_again(type, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
  }
}
