// A library is asked for by a name without a path, as the program says where it lies: before the first thread, in it, and after it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void* open_it(void* name) {
  void* const library = dlopen(name, RTLD_NOW);
  int (*const next)(void) = library ? dlsym(library, "next") : NULL;
  printf("next: %d\n", next ? next() : -1);
  if (library) dlclose(library);
  return NULL;
}

int main(int count, char** arguments) {
  open_it(arguments[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, open_it, arguments[1]);
  pthread_join(thread, NULL);
  open_it(arguments[1]);
}
