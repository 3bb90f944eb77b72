// Threads name each other, amid what they do.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_t initial;
static int ways[2];

static void name(const char* whom, pthread_t thread, const char* as) {
  char now[16] = "";
  const int error = pthread_setname_np(thread, as);
  pthread_getname_np(thread, now, sizeof now);
  printf("%s: %s, %s\n", whom, strerror(error), now);
}

static void* names_main(void* unused) {
  char c, now[16] = "";
  const int got = read(ways[0], &c, 1);
  pthread_getname_np(pthread_self(), now, sizeof now);
  printf("read %d, I am %s\n", got, now);
  name("main", initial, "initial");
  return unused;
}

int main(void) {
  pthread_t thread;
  initial = pthread_self();
  pipe(ways);
  pthread_create(&thread, NULL, names_main, NULL);
  name("at once", thread, "worker");
  usleep(50000);
  name("while it waits", thread, "fifteen letters");
  name("too long", thread, "sixteen letters!");
  name("itself", pthread_self(), "of its own");
  write(ways[1], "", 1);
  pthread_join(thread, NULL);
}
