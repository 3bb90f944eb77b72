// Shared mappings amid memory of after the first thread, a file's, one of no file and one from before the first thread: a forked child
// writes to them and to the memory around. And a private one of which a part was written is made constant.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kLarge = 4 << 20, kBoth = PROT_READ | PROT_WRITE };
static char* early;
static int file;
static sigjmp_buf before;

static void leave(int signal) { siglongjmp(before, signal); }

static char* map(char* low, size_t bytes, int rights, int flags) {
  return mmap(low, bytes, rights, flags | (low ? MAP_FIXED : 0), flags & MAP_ANONYMOUS ? -1 : file, 0);
}

static void forks(void) {
  char* const all = map(NULL, 4 * kBytes, kBoth, MAP_PRIVATE | MAP_ANONYMOUS);
  map(all + kBytes, kBytes, kBoth, MAP_SHARED), map(all + 2 * kBytes, kBytes, kBoth, MAP_SHARED | MAP_ANONYMOUS);
  mremap(early, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, all + 3 * kBytes);
  for (int i = 0; i < 4; ++i) all[i * kBytes] = 'p';
  if (fork() == 0) {
    for (int i = 0; i < 4; ++i) ++all[i * kBytes];
    _exit(0);
  }
  wait(NULL);
  for (int i = 0; i < 4; ++i) putchar(all[i * kBytes]);
  puts("");
}

static void* use(void* unused) {
  forks();
  char* const low = map(NULL, 2 * kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
  map(low, kLarge, PROT_READ, MAP_PRIVATE);
  mprotect(low, kLarge, kBoth);
  low[0] = 'w';
  mprotect(low, kLarge, PROT_READ);
  signal(SIGSEGV, leave);
  if (sigsetjmp(before, 1) == 0) low[0] = 'x';
  printf("constant: %c\n", low[0]);
  return unused;
}

int main(void) {
  file = memfd_create("amid", 0);
  ftruncate(file, kLarge);
  early = map(NULL, kBytes, kBoth, MAP_SHARED);
  pthread_t thread;
  pthread_create(&thread, NULL, use, NULL);
  pthread_join(thread, NULL);
}
