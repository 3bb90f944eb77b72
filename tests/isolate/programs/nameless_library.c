// A library that cannot be opened again by its name, and one that comes where main has unmapped a file, serve all threads.
// Usage: nameless_library memory|deleted|unmapped LIBRARY
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kViews = 8, kBytes = 4 << 20 };
static void* library;
static pthread_barrier_t loaded;

static int next(void) {
  int (*function)(void) = dlsym(library, "next");
  return function ? function() : -1;
}

static void* use(void* unused) {
  pthread_barrier_wait(&loaded);
  printf("thread: %d\n", next());
  return NULL;
}

static int copy(const char* from, int to) {
  char bytes[4096];
  const int file = open(from, O_RDONLY);
  for (ssize_t got; (got = read(file, bytes, sizeof bytes)) > 0;) write(to, bytes, got);
  close(file);
  return to;
}

int main(int count, char** arguments) {
  const char *way = arguments[1], *built = arguments[2];
  char name[4096], copied[4096];
  snprintf(copied, sizeof copied, "%s.copy", built);
  const int any = open("/proc/self/exe", O_RDONLY);
  void* views[kViews];
  for (int i = 0; i < kViews; i++) views[i] = mmap(NULL, kBytes, PROT_READ, MAP_SHARED, any, 0);
  pthread_barrier_init(&loaded, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, use, NULL);
  int file = -1;
  if (strcmp(way, "memory") == 0) file = copy(built, memfd_create("library", 0));
  else if (strcmp(way, "unmapped") != 0) file = copy(built, open(copied, O_RDWR | O_CREAT | O_TRUNC, 0700));
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  if (strcmp(way, "deleted") == 0) unlink(copied);
  if (strcmp(way, "unmapped") == 0) {
    for (int i = 0; i < kViews; i++) munmap(views[i], kBytes);
    strcpy(name, built);
  }
  library = dlopen(name, RTLD_NOW);
  printf("main: %d\n", library ? next() : -2);
  fflush(stdout);
  pthread_barrier_wait(&loaded);
  pthread_join(thread, NULL);
  fflush(stdout);
  if (fork() == 0) {
    printf("child: %d\n", next());
    fflush(stdout);
    _exit(0);
  }
  wait(NULL);
  printf("main again: %d\n", next());
}
