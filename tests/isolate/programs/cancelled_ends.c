// Threads are cancelled while their destructors run, and wait in their clean-up handlers as others do.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_key_t key;
static sem_t inside, go, never;

static void destroy(void* unused) {
  sem_post(&inside);
  while (sem_trywait(&go) != 0) usleep(100);  // which is no point of cancellation where it succeeds
  pthread_testcancel();
  puts("destroyed");
}
static void* sleeps(void* unused) { return usleep(20000), (void*)3; }
static void clean(void* unused) {
  sem_post(&inside);
  const int waited = sem_wait(&go);
  printf("waited: %d %s\n", waited, waited ? strerror(errno) : "");
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, sleeps, NULL);
  const int joined = pthread_join(thread, &result);
  printf("joined: %d %ld\n", joined, (long)result);
}

static void* returns(void* unused) { return pthread_setspecific(key, &key), (void*)5; }
static void* leaves(void* unused) {
  pthread_setspecific(key, &key);
  pthread_exit((void*)6);
}
static void* waits(void* unused) {
  pthread_cleanup_push(clean, NULL);
  sem_wait(&never);
  pthread_cleanup_pop(0);
  return unused;
}

int main(void) {
  void* (*const ways[])(void*) = {returns, leaves, waits};
  sem_init(&inside, 0, 0), sem_init(&go, 0, 0), sem_init(&never, 0, 0);
  pthread_key_create(&key, destroy);
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    void* result;
    pthread_create(&thread, NULL, ways[i], NULL);
    if (i < 2) sem_wait(&inside);
    pthread_cancel(thread);
    if (i == 2) sem_wait(&inside);
    sem_post(&go);
    pthread_join(thread, &result);
    printf("result: %ld\n", (long)result);
  }
}
