// pthread_exit in a handler over pthread_cond_wait: clean-up functions hold the mutex, and nobody waits any more.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t waiting;

static void leaves(int signal) { pthread_exit("left"); }
static void unlocks(void* how) { printf("clean-up of %s: %s\n", (char*)how, strerror(pthread_mutex_unlock(&mutex))); }

static void* waits(void* how) {
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later), later.tv_sec += 3600;
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlocks, how);
  sem_post(&waiting);
  for (;;) strcmp(how, "wait") ? pthread_cond_timedwait(&changed, &mutex, &later) : pthread_cond_wait(&changed, &mutex);
  pthread_cleanup_pop(1);
  return NULL;
}

static void leave_from(const char* how) {
  pthread_t thread;
  void* result = "?";
  pthread_create(&thread, NULL, waits, (void*)how);
  sem_wait(&waiting);
  pthread_mutex_lock(&mutex);  // it waits
  usleep(20000);
  pthread_kill(thread, SIGUSR1);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, &result);
  printf("%s\n", (char*)result);
}

int main(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&mutex, &attributes);
  const struct sigaction action = {.sa_handler = leaves};
  sigaction(SIGUSR1, &action, NULL);
  leave_from("wait");
  leave_from("timed wait");
  printf("locked: %s\n", strerror(pthread_mutex_lock(&mutex)));
  pthread_mutex_unlock(&mutex);
  fflush(stdout);
  printf("destroyed %d\n", pthread_cond_destroy(&changed));
}
