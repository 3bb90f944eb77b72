// A library whose constructor makes a thread.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void* answers(void* answer) {
  *(int*)answer = 42;
  return NULL;
}
__attribute__((constructor)) static void make(void) {
  int answer = 0;
  pthread_t thread;
  if (pthread_create(&thread, NULL, answers, &answer) == 0) pthread_join(thread, NULL);
  dprintf(STDOUT_FILENO, "answer: %d\n", answer);
}
