// Files of a terabyte are mapped one after the other, more than there are addresses: nothing else is mapped over.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void* nothing(void* unused) { return unused; }
static void* maps(void* unused) {
  const size_t bytes = 1ul << 40;
  const int file = memfd_create("large", 0);
  if (ftruncate(file, bytes) != 0 || pwrite(file, "x", 1, 0) != 1) return perror("file"), NULL;
  int read = 0;
  for (int i = 0; i < 200; ++i) {
    char* const low = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (low == MAP_FAILED) break;
    read += low[0] == 'x';
    munmap(low, bytes);
  }
  printf("read: %d\n", read);
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  maps(NULL);
  pthread_create(&thread, NULL, maps, NULL);
  pthread_join(thread, NULL);
}
