// mremap of private mappings of files: one larger than its file, one that nobody may write, one that runs, one that was written, one whose
// old place stays, and of more than there is.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kLarge = 2 << 20, kPage = 4096 };
static int file;

static char* map(size_t bytes, int protection) { return mmap(NULL, bytes, protection, MAP_PRIVATE, file, 0); }
static char* grow(char* low, size_t bytes) { return mremap(low, bytes, 2 * bytes, MREMAP_MAYMOVE); }

static void stay(int protection) {
  char* const low = map(kLarge, PROT_READ | PROT_WRITE);
  low[1] = 's';
  mprotect(low, kLarge, protection);
  char* const moved = mremap(low, kLarge, kLarge, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
  printf("stays: %c%c", moved[1], low[1]);
  mprotect(low, kLarge, PROT_READ | PROT_WRITE);
  low[1] = 't';
  printf("%c%c\n", moved[1], low[1]);
}

static void move_more(int flags) {  // than there is: a file, and what is another's
  char* const low = mmap(NULL, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mmap(low, kLarge, PROT_READ, flags, file, 0);
  low[kLarge] = 'k';
  errno = 0;
  mremap(low, 2 * kLarge, 3 * kLarge, MREMAP_MAYMOVE);
  printf("more: %s, %c\n", strerror(errno), low[kLarge]);
}

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
  stay(PROT_READ | PROT_WRITE), stay(PROT_READ);
  move_more(MAP_PRIVATE | MAP_FIXED), move_more(MAP_SHARED | MAP_FIXED);
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
