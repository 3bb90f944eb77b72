// Rights of files that are mapped amid memory of after the first thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kKinds = 3 };
static char* all;
static int file;
static sigjmp_buf before;

static void leave(int signal) { siglongjmp(before, signal); }

static void write_to(char* low) {
  if (sigsetjmp(before, 1) == 0) *low = 'w', puts("written");
  else puts("fault");
}

static void* use(void* maps) {
  static const int rights[kKinds] = {PROT_READ, PROT_NONE, PROT_READ}, flags[kKinds] = {MAP_SHARED, MAP_SHARED, MAP_PRIVATE};
  if (maps) all = mmap(NULL, kKinds * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < kKinds; ++i) {
    if (maps) mmap(all + i * kBytes, kBytes, rights[i], flags[i] | MAP_FIXED, file, 0);
    write_to(all + i * kBytes);
  }
  return maps;
}

int main(void) {
  file = memfd_create("amid", 0);
  ftruncate(file, kBytes);
  signal(SIGSEGV, leave);
  for (int maps = 1; maps >= 0; --maps) {
    pthread_t thread;
    pthread_create(&thread, NULL, use, maps ? &file : NULL);
    pthread_join(thread, NULL);
  }
  mprotect(all, kBytes, PROT_READ | PROT_WRITE);
  write_to(all);
}
