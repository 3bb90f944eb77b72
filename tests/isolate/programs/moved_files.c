// mremap of private mappings of files: one larger than its file, one that nobody may write, one that runs, and one that was written.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kLarge = 2 << 20, kPage = 4096 };
static int file;

static char* map(size_t bytes, int protection) { return mmap(NULL, bytes, protection, MAP_PRIVATE, file, 0); }
static char* grow(char* low, size_t bytes) { return mremap(low, bytes, 2 * bytes, MREMAP_MAYMOVE); }

static void* moves(void* unused) {
  char* all = map(kLarge, PROT_READ | PROT_WRITE);  // the file is a page
  all = grow(all, kLarge);
  printf("larger than the file: %c\n", all[1]);
  char* written = map(kLarge, PROT_READ | PROT_WRITE);
  written[1] = 'w';
  mprotect(written, kLarge, PROT_READ);
  written = grow(written, kLarge);
  char* read = grow(map(kLarge, PROT_READ), kLarge);
  char* run = grow(map(kPage, PROT_READ | PROT_EXEC), kPage);
  all[1] = 'm';
  pwrite(file, "\xc3z", 2, 0);  // ret
  ((void (*)(void))run)();
  printf("%c%c%c\n", all[1], written[1], read[1]);
  fflush(stdout);
  written[1] = 'x';  // may not be
  puts("written");
  return unused;
}

int main(void) {
  char page[kPage];
  memset(page, 'a', sizeof page);
  file = memfd_create("moved", 0);
  write(file, page, sizeof page);
  pthread_t thread;
  pthread_create(&thread, NULL, moves, NULL);
  pthread_join(thread, NULL);
}
