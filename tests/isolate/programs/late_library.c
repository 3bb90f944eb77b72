// A library loaded by one thread and used by another one made before, and by main.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t turn;
static double (*apply)(double);

static void* use(void* unused) {
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("cos %.3f\n", apply(0));
  return unused;
}
static void* load(void* unused) {
  pthread_barrier_wait(&turn);
  void* library = dlopen("libm.so.6", RTLD_NOW);
  apply = library ? (double (*)(double))dlsym(library, "cos") : NULL;
  pthread_barrier_wait(&turn);
  return library;
}

int main(void) {
  pthread_t loader, user;
  pthread_barrier_init(&turn, NULL, 3);
  pthread_create(&user, NULL, use, NULL);
  pthread_create(&loader, NULL, load, NULL);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  pthread_join(user, NULL);
  pthread_join(loader, NULL);
  printf("main %.3f\n", apply(0));
  return 0;
}
