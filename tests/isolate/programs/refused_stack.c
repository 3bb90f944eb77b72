// A stack that there cannot be: the one that a thread had before is not given away and kept as well.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void* writes(void* unused) {
  volatile char bytes[4096];
  for (int i = 0; i < 4096; ++i) bytes[i] = 7;
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  size_t bytes, guard, used = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_getguardsize(&attributes, &guard);
  bytes += guard;
  pthread_create(&thread, NULL, writes, NULL);
  pthread_join(thread, NULL);
  usleep(50000);  // it is gone
  pthread_attr_setstacksize(&attributes, 1ul << 44);
  printf("%s\n", strerror(pthread_create(&thread, &attributes, writes, NULL)));
  usleep(50000);
  char* const block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_create(&thread, NULL, writes, NULL);
  pthread_join(thread, NULL);
  for (size_t i = 0; i < bytes; ++i) used += block[i] != 0;
  printf("written by others: %zu\n", used);
}
