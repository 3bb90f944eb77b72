// Guard pages from before the first thread, in memory of any rights.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPages = 5, kPage = 4096, kGuardInstall = 102 };
static int ends[2];

static void* nothing(void* unused) { return unused; }
static char* make(int protection) {
  char* const low = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(low, 1, kPages * kPage);
  if (madvise(low + kPage, kPage, kGuardInstall) || madvise(low + 3 * kPage, kPage, kGuardInstall)) printf("no guards\n");
  mprotect(low, kPages * kPage, protection);
  return low;
}
static void look(const char* what, char* low) {
  printf("%s:", what);
  for (int i = 0; i < kPages; i++) printf(" %d", write(ends[1], low + i * kPage, 1) == 1 ? 1 : -errno);
  printf("\n");
}

int main(void) {
  pipe(ends);
  char* const plain = make(PROT_READ | PROT_WRITE);
  char* const constant = make(PROT_READ);
  char* const code = make(PROT_READ | PROT_EXEC);
  char* const nobodys = make(PROT_NONE);
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  look("plain", plain);
  look("constant", constant);
  look("code", code);
  look("nobody's", nobodys);
  return 0;
}
