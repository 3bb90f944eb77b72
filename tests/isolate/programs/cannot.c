// Programs whose threads cannot live apart, one a name: each is to be told so in one line.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char* way;
static int word;
static int own_thread(void* unused) { return 0; }

static long inline_futex(int operation, int value) {
  long result;
  register long r10 __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_futex), "D"(&word), "S"(operation | FUTEX_PRIVATE_FLAG), "d"(value), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

static void* work(void* unused) {
  if (!strcmp(way, "own-clone")) {
    static char stack[65536];
    syscall(SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES, stack + sizeof stack, NULL,
            NULL, 0);
  }
  unsigned long context = 0;
  if (!strcmp(way, "io_uring") || !strcmp(way, "libaio")) {
    const long made = way[1] == 'o' ? syscall(SYS_io_uring_setup, 4, NULL) : syscall(SYS_io_setup, 1, &context);
    printf("%s %d %d\n", way, made < 0, errno == ENOSYS);
  }
  if (!strcmp(way, "key")) {
    const int made = pkey_alloc(0, 0);
    printf("%s %d %d\n", way, made < 0, errno == ENOSYS);
  }
  if (!strcmp(way, "userfaultfd")) printf("userfaultfd %d\n", syscall(SYS_userfaultfd, 1) >= 0);
  if (!strcmp(way, "device")) {
    mmap(NULL, 4096, PROT_READ, MAP_SHARED, posix_openpt(O_RDWR), 0);
  }
  if (!strcmp(way, "inline-futex")) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    inline_futex(FUTEX_WAIT, 0);
    printf("woken\n");
  }
  if (!strcmp(way, "inline-futex-in-main") || !strcmp(way, "many")) pause();
  return NULL;
}

int main(int count, char** arguments) {
  way = arguments[1];
  pthread_t thread, idle;
  if (!strcmp(way, "many")) {
    int made = 0, refused = 0;
    for (int i = 0; i < 12; ++i) {
      if (pthread_create(&thread, NULL, work, NULL) == 0) ++made;
      else ++refused;
    }
    printf("made %d refused %d\n", made, refused);
    return 0;
  }
  unsigned long context = 0;
  if (!strcmp(way, "libaio-before")) syscall(SYS_io_setup, 1, &context);
  pthread_create(&thread, NULL, work, NULL);
  if (!strcmp(way, "inline-futex-in-main")) inline_futex(FUTEX_WAIT, 0);
  if (!strcmp(way, "inline-futex")) {
    while (inline_futex(FUTEX_WAKE, 1) == 0) usleep(1000);
  }
  pthread_join(thread, NULL);
  printf("went on\n");
  return 0;
}
