// Starts other programs once there has been a thread.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void* ends(void* unused) { return unused; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, ends, NULL);
  pthread_join(thread, NULL);
  printf("status: %d\n", system("exec sort /dev/null"));
  return 0;
}
