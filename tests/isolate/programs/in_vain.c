// Locks of the priority protocols that nobody will release, and a deadline that is none.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t inherits, left, protects;

static void make(pthread_mutex_t* mutex, int protocol) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, protocol);
  pthread_mutex_init(mutex, &attributes);
}

static void* lock(void* mutex) { return pthread_mutex_lock(mutex), NULL; }

static struct timespec soon(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  if ((time.tv_nsec += 20000000) >= 1000000000) time.tv_sec += 1, time.tv_nsec -= 1000000000;
  return time;
}

int main(void) {
  pthread_t thread;
  make(&inherits, PTHREAD_PRIO_INHERIT), make(&left, PTHREAD_PRIO_INHERIT), make(&protects, PTHREAD_PRIO_PROTECT);
  pthread_create(&thread, NULL, lock, &left);
  pthread_join(thread, NULL);
  pthread_mutex_lock(&inherits);
  struct timespec time = soon(CLOCK_REALTIME);
  printf("held by itself: %s\n", strerror(pthread_mutex_timedlock(&inherits, &time)));
  time = soon(CLOCK_MONOTONIC);
  printf("by another clock: %s\n", strerror(pthread_mutex_clocklock(&inherits, CLOCK_MONOTONIC, &time)));
  time = soon(CLOCK_REALTIME);
  printf("left locked: %s\n", strerror(pthread_mutex_timedlock(&left, &time)));
  pthread_create(&thread, NULL, lock, &inherits);  // waits until the program ends
  pthread_mutex_lock(&protects);
  time.tv_nsec = -1;
  printf("no deadline: %s\n", strerror(pthread_mutex_timedlock(&protects, &time)));
}
