// Functions within functions, whose code lies on the stack: in main, in threads, and called by one thread on another's stack.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

static void (*volatile given)(int);
static sem_t ready, through;

static void call(void (*function)(int)) {
  for (int i = 1; i <= 3; ++i) function(i);
}

static void* count(void* who) {
  int sum = 0;
  void add(int i) { sum += i; }
  call(add);
  printf("%s %d\n", (char*)who, sum);
  return NULL;
}

static void* lends(void* unused) {
  int sum = 0;
  void add(int i) { sum += i; }
  given = add;
  sem_post(&ready), sem_wait(&through);
  printf("lent %d\n", sum);
  return NULL;
}

static void* calls(void* unused) {
  sem_wait(&ready);
  call(given);
  sem_post(&through);
  return NULL;
}

static void run(void* (*function)(void*), void* argument, size_t stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_create(&thread, &attributes, function, argument);
  pthread_join(thread, NULL);
}

int main(void) {
  pthread_t one, other;
  count("main");
  pthread_create(&other, NULL, calls, NULL);
  pthread_create(&one, NULL, lends, NULL);
  pthread_join(one, NULL), pthread_join(other, NULL);
  run(count, "thread", 1 << 20);
  run(count, "thread on a larger stack", 1 << 21);
  run(count, "thread on the same", 1 << 21);
  count("main");
}
