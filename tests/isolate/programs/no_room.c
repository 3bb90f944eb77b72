// More mappings of files than there is room for, the last where memory was that the program has given back: it fails, and what was there is
// there still, for whoever gets it next.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 4096, kMost = 1 << 14, kMemory = MAP_PRIVATE | MAP_ANONYMOUS };

static void* nothing(void* unused) { return unused; }

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  FILE* const file = fopen(arguments[0], "r");
  char* const memory = mmap(NULL, kPage, PROT_READ | PROT_WRITE, kMemory, -1, 0);
  int made = 0;
  while (made < kMost && mmap(NULL, kPage, PROT_READ, MAP_SHARED, fileno(file), 0) != MAP_FAILED) ++made;
  errno = 0;
  munmap(memory, kPage);
  const void* const one_more = mmap(memory, kPage, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fileno(file), 0);
  printf("refused: %d %d\n", one_more == MAP_FAILED, errno == ENOMEM);
  fflush(stdout);
  char* const again = mmap(memory, kPage, PROT_READ | PROT_WRITE, kMemory | MAP_FIXED, -1, 0);
  *again = 'x';
  printf("again: %d %c\n", again == memory, *again);
  return 0;
}
