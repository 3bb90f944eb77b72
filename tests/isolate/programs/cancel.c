// Deferred cancellation at each kind of blocking call, with clean-up handlers, disabled cancellation and testcancel.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static int pipe_ends[2];
static const char* const ways[] = {"cond", "sem", "read", "sleep", "join", "testcancel", "disabled"};
static void* forever(void* unused) {
  for (;;) pause();
  return unused;
}

static void unlock(void* m) { printf("mutex held in the handler: %d\n", pthread_mutex_unlock(m) == 0); }
static void note(void* way) { printf("clean-up of %s\n", (const char*)way); }

static void* block(void* argument) {
  const char* way = argument;
  char c;
  pthread_cleanup_push(note, argument);
  if (!strcmp(way, "cond")) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    for (;;) pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
  }
  if (!strcmp(way, "sem")) sem_wait(&empty);
  if (!strcmp(way, "read")) read(pipe_ends[0], &c, 1);
  if (!strcmp(way, "sleep")) sleep(100);
  if (!strcmp(way, "join")) {
    pthread_t other;
    pthread_create(&other, NULL, forever, NULL);
    pthread_join(other, NULL);
  }
  if (!strcmp(way, "testcancel"))
    for (;;) pthread_testcancel();
  if (!strcmp(way, "disabled")) {
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    usleep(100000);
    printf("not cancelled while disabled\n");
    pthread_setcancelstate(old, NULL);
    pthread_testcancel();
  }
  pthread_cleanup_pop(0);
  return NULL;
}

int main(void) {
  sem_init(&empty, 0, 0);
  pipe(pipe_ends);
  for (unsigned i = 0; i < sizeof ways / sizeof *ways; ++i) {
    pthread_t thread;
    void* result = NULL;
    pthread_create(&thread, NULL, block, (void*)ways[i]);
    if (i % 2) usleep(20000);  // asleep already, or not yet
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s: cancelled %d\n", ways[i], result == PTHREAD_CANCELED);
  }
  return 0;
}
