// Mappings of files that are grown, moved and given other rights by one thread after another one has looked at them.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 600 };  // large enough for private mappings to be copied by the block
static pthread_barrier_t asked, answered;
static char* volatile place;
static char to_write, seen;
static sigjmp_buf back;

static void leave(int n) { siglongjmp(back, 1); }
static void look(void) {
  if (sigsetjmp(back, 1)) seen = '!';
  else if (to_write) *place = to_write, seen = *place;
  else seen = *place;
}
static void* other(void* unused) {
  for (;;) {
    pthread_barrier_wait(&asked);
    if (!place) return unused;
    look();
    pthread_barrier_wait(&answered);
  }
}
static char by_other(char* at, char what) {
  place = at, to_write = what;
  pthread_barrier_wait(&asked);
  pthread_barrier_wait(&answered);
  return seen;
}
static char by_me(char* at, char what) {
  place = at, to_write = what;
  look();
  return seen;
}
static int file(char letter) {
  char page[kPage];
  const int fd = memfd_create("views", 0);
  for (int i = 0; i < kPages; ++i) memset(page, letter + i % 20, kPage), write(fd, page, kPage);
  return fd;
}

static void moved(void) {
  const int fd = file('a');
  char* p = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, kPage);
  printf("before: %c", by_other(p, 0));
  printf(" %c\n", by_me(p + kPage, 0));
  p[0] = 'X';
  char* const grown = mremap(p, 2 * kPage, 9 * kPage, MREMAP_MAYMOVE);
  printf("grown: %c", by_other(grown, 0));
  printf(" %c", by_other(grown + 8 * kPage, 0));
  printf(" %c\n", by_other(grown + kPage, 'Y'));
  printf("seen: %c\n", by_me(grown + kPage, 0));
  char* const small = mremap(grown, 9 * kPage, 3 * kPage, 0);
  printf("shrunk: %d", small == grown);
  printf(" %c", by_other(small + 2 * kPage, 0));
  printf(" %c\n", by_me(small + 3 * kPage, 0));
  char* const wanted = mmap(NULL, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(wanted, 'W', 4 * kPage);
  by_other(wanted, 0);
  char* const there = mremap(small, 3 * kPage, 3 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, wanted);
  printf("there: %d", there == wanted);
  printf(" %c", by_other(there, 0));
  printf(" %c", by_other(there + kPage, 0));
  printf(" %c\n", by_other(there + 3 * kPage, 0));
  printf("left: %c\n", by_me(small, 0));
  char c = 0;
  pread(fd, &c, 1, 2 * kPage);
  printf("file: %c %d\n", c, munmap(there, 4 * kPage));
}
static void moved_private(void) {
  const int fd = file('a');
  char* const p = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE, fd, kPage);
  printf("private: %c", by_other(p, 0));
  printf(" %c", by_me(p + kPage, 0));
  char* const grown = mremap(p, 2 * kPage, 9 * kPage, MREMAP_MAYMOVE);
  printf(" %c", by_other(grown, 0));
  printf(" %c", by_other(grown + 8 * kPage, 0));
  printf(" %d\n", munmap(grown, 9 * kPage));
}
static void rights(int sharing, int pages) {
  const int fd = file('a');
  char* const p = mmap(NULL, pages * kPage, PROT_READ, sharing, fd, 0);
  printf("read only: %c", by_other(p, 0));
  printf(" %c", by_other(p, 'X'));
  printf(" %c\n", by_me(p, 'X'));
  printf("opened: %d", mprotect(p, 2 * kPage, PROT_READ | PROT_WRITE));
  printf(" %c", by_other(p, 'X'));
  printf(" %c", by_me(p, 0));
  printf(" %c\n", by_me(p + kPage, 'Y'));
  printf("seen: %c", by_other(p + kPage, 0));
  printf(", behind: %c", by_me(p + 2 * kPage, 'Z'));
  printf(" %c\n", by_other(p + 2 * kPage, 'Z'));
  printf("closed: %d", mprotect(p, 2 * kPage, PROT_READ));
  printf(" %c", by_me(p, 0));
  printf(" %c", by_me(p, 'V'));
  printf(" %c", by_other(p, 0));
  printf(" %c\n", by_other(p, 'V'));
  printf("opened: %d", mprotect(p, pages * kPage, PROT_READ | PROT_WRITE));
  printf(" %c", by_me(p, 'U'));
  printf(" %c", by_other(p, 0));
  printf(" %c\n", by_other(p + (pages - 1) * kPage, 'T'));
  printf("all: %c", by_me(p + (pages - 1) * kPage, 0));
  printf(" %c\n", by_other(p + 2 * kPage, 0));
  char c = 0;
  pread(fd, &c, 1, 0);
  printf("file: %c %d\n", c, munmap(p, pages * kPage));
}

int main(void) {
  pthread_t thread;
  signal(SIGSEGV, leave);
  pthread_barrier_init(&asked, NULL, 2);
  pthread_barrier_init(&answered, NULL, 2);
  pthread_create(&thread, NULL, other, NULL);
  moved();
  moved_private();
  rights(MAP_SHARED, 5);
  rights(MAP_PRIVATE, 5);
  rights(MAP_SHARED, kPages);
  rights(MAP_PRIVATE, kPages);
  place = NULL;
  pthread_barrier_wait(&asked);
  pthread_join(thread, NULL);
  return 0;
}
