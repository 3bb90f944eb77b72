// A file is mapped amid memory, unmapped by itself and then with all of it, there or where the program chose: what is mapped next is memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 4 << 20, kAll = 4 * kBytes, kNext = 8 };
static int file;

static char* map(char* low, size_t bytes, int protection, int flags) {
  return mmap(low, bytes, protection, MAP_PRIVATE | (low ? MAP_FIXED : 0) | flags, flags ? -1 : file, 0);
}

static void* write_to(void* low) {
  ((char*)low)[0] = 'w', ((char*)low)[kBytes - 1] = 'w';
  return NULL;
}

static char use(char* low) {  // by two threads
  pthread_t thread;
  pthread_create(&thread, NULL, write_to, low);
  pthread_join(thread, NULL);
  return ++low[0];
}

static void* go_around(void* place) {
  for (int again = 0; again < 2; ++again) {
    char* const all = map(place, kAll, PROT_NONE, MAP_ANONYMOUS);
    map(all, kBytes, PROT_READ, 0);
    munmap(all, kBytes);
    if (again) printf("there again: %c\n", use(map(all, kBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS)));
    munmap(all, kAll);
    for (int i = 0; i < kNext; ++i) putchar(use(map(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS)));
    puts("");
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  file = memfd_create("amid", 0);
  ftruncate(file, kBytes);
  for (long place = 0; place < 2; ++place) {
    pthread_create(&thread, NULL, go_around, (void*)(place << 45));
    pthread_join(thread, NULL);
  }
}
