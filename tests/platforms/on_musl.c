/* A program for musl: blocks of four threads through all of malloc's family, a fork, what it says to the caller, and which signals a thread's
   first miss blocks. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 500, ROUNDS = 100 };

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

static void* work(void* number) {
  const unsigned char mark = (unsigned char)(uintptr_t)number;
  unsigned char* block[BLOCKS] = {0};
  size_t bytes[BLOCKS] = {0};
  uint32_t random = 1000 + mark;
  for (int i = 0; i < ROUNDS * BLOCKS; ++i) {
    random = random * 1664525u + 1013904223u;
    const unsigned at = (random >> 8) % BLOCKS;
    for (size_t j = 0; j < bytes[at]; j += 61) check(block[at][j] == mark, "nobody else wrote");
    bytes[at] = (random >> 12) % (i % 64 ? 2000 : 400000);
    if (i % 3) {
      free(block[at]);
      block[at] = i % 2 ? malloc(bytes[at]) : aligned_alloc(64, bytes[at]);
    } else {
      block[at] = realloc(block[at], bytes[at] ? bytes[at] : 1);
    }
    check(block[at] != NULL && malloc_usable_size(block[at]) >= bytes[at], "a block");
    memset(block[at], mark, bytes[at]);
  }
  for (int i = 0; i < BLOCKS; ++i) free(block[i]);
  return NULL;
}

static void crowd(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) check(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)) == 0, "a thread");
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

/* A filter sends the thread here for rt_sigprocmask, from the allocator and then from musl, which ends the thread. Nothing is blocked. */
static volatile uint64_t blocked;
static void note_mask(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  long long* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint64_t* const mask = (const uint64_t*)registers[REG_RSI];
  if (mask && !blocked) blocked = *mask;
  registers[REG_RAX] = 0;
}
static void* miss_first(void* unused) {
  static struct { uint16_t code; uint8_t yes, no; uint32_t k; } filter[] = {
      {0x20, 0, 0, 0}, {0x15, 0, 1, SYS_rt_sigprocmask}, {0x06, 0, 0, 0x00030000 /* trap */}, {0x06, 0, 0, 0x7fff0000 /* allow */}};
  struct { uint16_t length; void* filter; } program = {4, filter};
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &program) == 0, "a filter");
  free(malloc(100));
  return unused;
}

/* With signal 34 musl has all threads do something, as in setuid: whoever waits for them may hold a lock of the allocator's. */
static void look_at_first_miss(void) {
  struct sigaction action = {0};
  action.sa_sigaction = note_mask;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  check(sigaction(SIGSYS, &action, NULL) == 0, "a handler");
  pthread_t thread;
  check(pthread_create(&thread, NULL, miss_first, NULL) == 0, "a thread");
  pthread_join(thread, NULL);
  const uint64_t of_faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1);
  check(!(blocked & (of_faults | 1ull << 33)), "what a thread's first miss blocks");
}

int main(void) {
  crowd();
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    check(child >= 0, "a fork");
    if (child == 0) {
      crowd();
      _exit(0);
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "a child that could allocate");
  }
  check(malloc(SIZE_MAX / 2) == NULL, "no block beyond the address space");
  look_at_first_miss();
  puts("musl holds");
  return 0;
}
