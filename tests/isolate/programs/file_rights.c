// Rights of a large private mapping of a file, a block of which is memory because it was written: nobody may touch it, it moves so, or it
// may be written and run.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kLarge = 4 << 20, kEnd = kLarge - 1, kAll = PROT_READ | PROT_WRITE | PROT_EXEC };
static int file;
static char* low;
static __thread sigjmp_buf before;

static void leave(int signal) { siglongjmp(before, signal); }

static void look(const char* who, size_t at) {
  if (sigsetjmp(before, 1) == 0) printf("%s: %c\n", who, ((volatile char*)low)[at] == '\xc3' ? 'r' : low[at]);
  else printf("%s: fault\n", who);
}

static void* look_as_other(void* unused) {
  look("other, written", 1), look("other, not written", kEnd);
  return unused;
}

static void look_twice(const char* what) {
  pthread_t other;
  puts(what);
  look("written", 1), look("not written", kEnd);
  pthread_create(&other, NULL, look_as_other, NULL);
  pthread_join(other, NULL);
}

static void map(int protection) { low = mmap(NULL, kLarge, protection, MAP_PRIVATE, file, 0); }
static void call(size_t at) { ((void (*)(void))(low + at))(), puts("ran"); }

static void* change(void* unused) {
  map(PROT_READ | PROT_WRITE);
  low[1] = 'w';
  mprotect(low, kLarge, PROT_NONE), look_twice("nobody");
  low = mremap(low, kLarge, 2 * kLarge, MREMAP_MAYMOVE), look_twice("nobody, moved");
  mprotect(low, 2 * kLarge, PROT_READ), look_twice("read");
  signal(SIGSEGV, SIG_DFL);
  map(kAll), call(0), call(kEnd), low[1] = '\xc3', call(1);
  map(PROT_READ), mprotect(low, kLarge, kAll), call(0), call(kEnd), low[1] = '\xc3', call(1);
  printf("%d", mremap(low, 0, kLarge, MREMAP_MAYMOVE) == MAP_FAILED), printf(": %d\n", errno);
  errno = 0;
  printf("%d", mremap(low, kLarge, 2 * kLarge, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) == MAP_FAILED), printf(": %d\n", errno);
  return unused;
}

int main(void) {
  static char part[1 << 16];
  memset(part, '\xc3', sizeof part);  // ret
  file = memfd_create("rights", 0);
  for (size_t at = 0; at < 2 * kLarge; at += sizeof part) write(file, part, sizeof part);
  signal(SIGSEGV, leave);
  pthread_t thread;
  pthread_create(&thread, NULL, change, NULL);
  pthread_join(thread, NULL);
}
