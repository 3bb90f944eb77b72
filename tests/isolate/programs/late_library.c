// A library loaded after the first thread, by a thread or by main: late_library LIBRARY thread|main|alone. Its data, its thread-local
// storage and its code are everybody's, before and after; and when it is closed, its place may be another one's.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t turn;
static const char *file, *who;
static void* library;
static int (*next)(void);
static int* (*data)(void);

/* The lowest of many: a descriptor that somebody else has for a moment is none that is left. */
static int next_descriptor(void) {
  int lowest = 1 << 20;
  for (int i = 0; i < 20; ++i, usleep(500)) {
    const int fd = dup(0);
    close(fd);
    if (fd < lowest) lowest = fd;
  }
  return lowest;
}
static void load(void) {
  const int before = next_descriptor();
  library = dlopen(file, RTLD_NOW);
  printf("descriptors left: %d\n", next_descriptor() - before);
  if (!library) puts(dlerror()), exit(1);
  next = (int (*)(void))dlsym(library, "next");
  data = (int* (*)(void))dlsym(library, "data");
  printf("loaded: %d\n", next());
}
static void* use(void* loads) {
  pthread_barrier_wait(&turn);
  if (loads) load();
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("thread: %d %d\n", next(), next());
  *data() = loads ? 3000 : 4000;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return loads;
}
static void* look(void* unused) { return printf("later thread: %d\n", next()), unused; }
static void* wait(void* unused) { return unused; }
static void in_thread(void* (*function)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, NULL);
  pthread_join(thread, NULL);
}

int main(int count, char** arguments) {
  file = arguments[1];
  who = arguments[2];
  pthread_barrier_init(&turn, NULL, 2);
  in_thread(wait);
  if (!strcmp(who, "alone")) load();
  pthread_t thread;
  pthread_create(&thread, NULL, use, strcmp(who, "thread") ? NULL : &thread);
  pthread_barrier_wait(&turn);
  if (!strcmp(who, "main")) load();
  pthread_barrier_wait(&turn);
  printf("main: %d\n", next());
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("main: %d\n", next());
  in_thread(look);
  for (int i = 0; i < 20; ++i) {
    dlclose(library);
    library = dlopen(i % 2 ? "libm.so.6" : file, RTLD_NOW);
  }
  printf("closed and loaded: %d\n", library != NULL);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return 0;
}
