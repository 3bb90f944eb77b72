// Children are forked while other threads load a library, make threads and change mappings: each has whole tables of its own, and its own memory.
// Usage: fork_busy LIBRARY
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 5, kChildren = 100, kBlocks = 100 };
static atomic_int stop;

static void* load(void* name) {
  while (!stop) {
    void* library = dlopen(name, RTLD_NOW);
    if (library) dlclose(library);
  }
  return NULL;
}

static void* nothing(void* unused) { return NULL; }

static void* make(void* unused) {
  pthread_t thread;
  while (!stop)
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
  return NULL;
}

static void* map(void* unused) {
  char* held[32] = {0};
  size_t bytes[32];
  const int file = memfd_create("file", 0);
  ftruncate(file, 1 << 20);
  for (unsigned random = 1; !stop;) {
    random = random * 1103515245 + 12345;
    const int i = random >> 16 & 31;
    if (held[i]) {
      munmap(held[i], bytes[i]);
      held[i] = NULL;
      continue;
    }
    bytes[i] = 4096 * (1 + (random >> 22 & 31));
    const int is_file = (random >> 27 & 3) == 0;
    held[i] = mmap(NULL, bytes[i], PROT_READ | PROT_WRITE, is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, is_file ? file : -1, 0);
    held[i][0] = 1;
    if ((random >> 27 & 3) == 1) mprotect(held[i], 4096, PROT_READ);
  }
  return NULL;
}

static int child(void) {
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) {
    const size_t bytes = 4096 * (1 + i % 8);
    blocks[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, i % 5 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (blocks[i] == MAP_FAILED || blocks[i][0] || blocks[i][bytes - 1]) return 1;
    memset(blocks[i], i + 1, bytes);
  }
  for (int i = 0; i < kBlocks; i++) {
    const size_t bytes = 4096 * (1 + i % 8);
    if (blocks[i][0] != i + 1 || blocks[i][bytes - 1] != i + 1 || munmap(blocks[i], bytes) != 0) return 2;
  }
  return 0;
}

int main(int count, char** arguments) {
  void* (*const work[])(void*) = {load, make, map, make, map};
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work[i], arguments[1]);
  int whole = 0;
  for (int i = 0; i < kChildren; i++) {
    const pid_t pid = fork();
    if (pid == 0) _exit(child());
    int status;
    whole += waitpid(pid, &status, 0) == pid && status == 0;
  }
  stop = 1;
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("whole: %d of %d\n", whole, kChildren);
}
