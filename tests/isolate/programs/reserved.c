// Memory that the program reserves is forbidden where it handles the faults, by libc's mmap or by the system call.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *called, *asked;
static sigjmp_buf back;
static void jump(int signal) { siglongjmp(back, 1); }
static int faults(volatile char* at) {
  if (sigsetjmp(back, 1)) return 1;
  (void)*at;
  return 0;
}
static void* look(void* unused) {
  printf("forbidden: %d %d\n", faults(called), faults(asked));
  return unused;
}
static void in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, look, NULL);
  pthread_join(thread, NULL);
}

int main(void) {
  enum { kBytes = 1 << 16, kFlags = MAP_PRIVATE | MAP_ANONYMOUS };
  signal(SIGSEGV, jump);
  called = asked = (char*)8;
  in_thread();
  called = mmap(NULL, kBytes, PROT_NONE, kFlags, -1, 0);
  asked = (char*)syscall(SYS_mmap, NULL, kBytes, PROT_NONE, kFlags, -1, 0);
  look(NULL);
  in_thread();
  return 0;
}
