// What is cut out of the middle of a mapping while no piece more can be noted is refused, or what stays above it is as it was: a private mapping of
// a file can be written there, a child has a copy of its own of memory, and finds what it should find empty.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kLarge = 1 << 20, kFiles = 1100, kPieces = 17000 };
static _Alignas(4096) char memory[2 * kPieces * kPage];

static void* no_work(void* unused) { return unused; }
static int cut(char* at) { return munmap(at, kPage) == 0 || errno == ENOMEM; }

static void cut_files(void) {
  const int fd = memfd_create("file", 0);
  char* first = NULL;
  ftruncate(fd, kLarge);
  for (int i = 0; i < kFiles; ++i) {
    char* const one = mmap(NULL, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (!first) first = one;
  }
  const int is_answered = cut(first + kLarge / 2);
  first[kLarge - 1] = 'x';
  printf("file: %d %c\n", is_answered, first[kLarge - 1]);
}

static void cut_memory(void) {
  int answered = 0;
  for (int i = 0; i < kPieces; ++i) answered += cut(memory + (2 * i + 1) * kPage);
  char* const last = memory + (2 * kPieces - 2) * kPage;
  *last = 'p';
  const int child = fork();
  if (child == 0) *last = 'c', _exit(0);
  waitpid(child, NULL, 0);
  printf("memory: %d %c\n", answered == kPieces, *last);
}

static void keep_pieces(void) {
  char* const low = mmap(NULL, 2 * kFiles * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const last = low + (2 * kFiles - 2) * kPage;
  int answered = 0, status = 0;
  *last = 'p';
  madvise(low, 2 * kFiles * kPage, MADV_WIPEONFORK);
  for (int i = 0; i < kFiles; ++i) answered += madvise(low + (2 * i + 1) * kPage, kPage, MADV_KEEPONFORK) == 0 || errno == ENOMEM;
  const int child = fork();
  if (child == 0) _exit(*last);
  waitpid(child, &status, 0);
  printf("empty: %d %d\n", answered == kFiles, status);
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, no_work, NULL);
  pthread_join(thread, NULL);
  strcmp(arguments[1], "files") == 0 ? cut_files() : strcmp(arguments[1], "memory") == 0 ? cut_memory() : keep_pieces();
  return 0;
}
