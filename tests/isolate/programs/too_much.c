// Lengths that reach beyond the end of all addresses, and more memory than the machine has: refused, and nothing is changed.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY MAP_PRIVATE | MAP_ANONYMOUS
static char* memory;

static void* nothing(void* unused) { return unused; }

static void show(const char* what, int given) {
  printf("%s: %s, still there %d\n", what, given ? "given" : strerror(errno), memory[0]);
  fflush(stdout);
}

static void over(const char* what, size_t bytes, int flags) {
  show(what, mmap(memory, bytes, PROT_READ | PROT_WRITE, MEMORY | flags, -1, 0) != MAP_FAILED);
}

static void beyond_the_end(void) {
  over("fixed, 128 TB", 1ul << 47, MAP_FIXED | MAP_NORESERVE);
  over("fixed, less than a page from the top", SIZE_MAX, MAP_FIXED | MAP_NORESERVE);
  over("fixed, two pages from the top", -8192ul, MAP_FIXED | MAP_NORESERVE);
  over("not to replace", 1ul << 47, MAP_FIXED_NOREPLACE | MAP_NORESERVE);
  show("unmapped, 128 TB", munmap(memory, 1ul << 47) == 0);
  show("unmapped, all", munmap(memory, SIZE_MAX) == 0);
  show("made smaller, all", mremap(memory, -4096ul, 4096, 0) != MAP_FAILED);
  show("moved, 128 TB", mremap(memory, 8192, 1ul << 47, MREMAP_MAYMOVE | MREMAP_FIXED, memory + (1 << 20)) != MAP_FAILED);
  show("moved onto itself", mremap(memory, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 4096) != MAP_FAILED);
}

static void beyond_the_machine(size_t bytes) {
  void* block = malloc(4 << 20);
  show("malloc", malloc(bytes) != NULL);
  show("calloc", calloc(bytes >> 20, 1 << 20) != NULL);
  show("realloc", realloc(block, bytes) != NULL);
  show("fixed", mmap(memory, bytes, PROT_READ | PROT_WRITE, MEMORY | MAP_FIXED, -1, 0) != MAP_FAILED);
  show("shared", mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  show("grown", mremap(memory, 8192, bytes, MREMAP_MAYMOVE) != MAP_FAILED);
  show("not reserved", mmap(NULL, bytes, PROT_READ | PROT_WRITE, MEMORY | MAP_NORESERVE, -1, 0) != MAP_FAILED);
  show("not writable", mmap(NULL, bytes, PROT_READ, MEMORY, -1, 0) != MAP_FAILED);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MEMORY, -1, 0);
  memory[0] = 7;
  beyond_the_end();
  beyond_the_machine(8ul << 40);
}
