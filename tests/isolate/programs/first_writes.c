// Threads are the first to write to a large private mapping of a file, all at once: first_writes FILE plain, or with main's alternate stack
// for SIGSEGV, which is no other thread's.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kThreads = 6, kRounds = 100, kPieces = 64, kPiece = 1 << 16 };
static pthread_barrier_t barrier;
static char* volatile area;
static volatile int seen, with_stack;
static void on_fault(int signal) { _exit(7); }
static void* writes(void* own) {
  const long index = (long)own;
  stack_t stack;
  sigaltstack(NULL, &stack);
  if (!(stack.ss_flags & SS_DISABLE)) with_stack = 1;
  for (int round = 0; round < kRounds; ++round) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < kPieces; ++i) {
      volatile char* const at = area + (long)i * kPiece + index;
      *at = (char)i;
      if (*at == (char)i) __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  ftruncate(file, (long)kPieces * kPiece);
  const stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  if (strcmp(arguments[2], "stack") == 0) sigaltstack(&stack, NULL);
  const struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, writes, (void*)i);
  for (int round = 0; round < kRounds; ++round) {
    area = mmap(NULL, (long)kPieces * kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    munmap(area, (long)kPieces * kPiece);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("missing: %d, alternate stack: %d\n", kThreads * kRounds * kPieces - seen, with_stack);
  return 0;
}
