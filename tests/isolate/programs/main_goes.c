// The program goes on without main: main_goes joined (a thread joins main, which has a result), cancelled (main is cancelled and joined), or
// returns (it was cancelled and does not heed that).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_t main_thread;
static pthread_key_t key;
static const char* how;

static void at_exit(void) { puts("the program ends"); }
static void destroys(void* value) { puts(value); }
static void* stays(void* unused) {
  void* result = NULL;
  if (strcmp(how, "joined") != 0) pthread_cancel(main_thread);
  if (strcmp(how, "returns") == 0) for (;;) pause();
  const int joined = pthread_join(main_thread, &result);
  printf("joined: %d, %s\n", joined, result == PTHREAD_CANCELED ? "cancelled" : (const char*)result);
  usleep(10000);
  puts("the thread ends");
  return NULL;
}

int main(int count, char** arguments) {
  how = arguments[1];
  main_thread = pthread_self();
  atexit(at_exit);
  pthread_key_create(&key, destroys);
  pthread_setspecific(key, "main's value goes");
  if (strcmp(how, "returns") == 0) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, stays, NULL);
  if (strcmp(how, "joined") == 0) pthread_exit("with a result");
  if (strcmp(how, "cancelled") == 0) for (;;) pause();
  usleep(50000);
  return 3;
}
