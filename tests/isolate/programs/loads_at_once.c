// Threads load and unload a library with thread-local storage, its path the argument, all at once.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static const char* path;
static void* loads(void* unused) {
  long wrong = 0;
  for (int i = 0; i < 30; ++i) {
    void* const library = dlopen(path, RTLD_NOW);
    int (*const count)(void) = library ? (int (*)(void))dlsym(library, "count_own") : NULL;
    const int first = count ? count() : 0;
    wrong += !count || count() != first + 1;
    if (library) dlclose(library);
  }
  return (void*)wrong;
}

int main(int count, char** arguments) {
  enum { kThreads = 6 };
  path = arguments[1];
  pthread_t threads[kThreads];
  long wrong = 0;
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, loads, NULL);
  for (int i = 0; i < kThreads; ++i) {
    void* of_one;
    pthread_join(threads[i], &of_one);
    wrong += (long)of_one;
  }
  printf("wrong: %ld\n", wrong);
  return 0;
}
