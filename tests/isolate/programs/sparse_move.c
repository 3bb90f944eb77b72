// A large mapping of which little was written is moved: the rest of it does not come into being, and what was written comes along.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { kBytes = 256 << 20, kStep = 33 << 20 };
static unsigned char present[2 * kBytes / 4096];

static void* nothing(void* unused) { return unused; }

static char* map(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

static size_t count(char* memory, size_t bytes) {
  size_t pages = 0;
  mincore(memory, bytes, present);
  for (size_t i = 0; i < bytes / 4096; ++i) pages += present[i] & 1;
  return pages;
}

static void move(const char* what, int flags, void* target) {
  char* memory = map(kBytes);
  map(4096);  // it cannot grow where it lies
  for (size_t at = 0; at < kBytes; at += kStep) memory[at + 4095] = (char)(at / kStep + 1);
  const size_t before = count(memory, kBytes);
  char* moved = mremap(memory, kBytes, flags & MREMAP_DONTUNMAP ? kBytes : 2 * kBytes, MREMAP_MAYMOVE | flags, target);
  int same = moved != MAP_FAILED && moved != memory;
  for (size_t at = 0; same && at < kBytes; at += kStep) same = moved[at + 4095] == (char)(at / kStep + 1) && moved[at + 4096] == 0;
  printf("%s: little before %d, same %d, little after %d\n", what, before < 100, same, count(moved, kBytes) < 100);
  if (flags & MREMAP_DONTUNMAP) printf("left: %d\n", memory[4095] || memory[kStep + 4095]);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  move("grown", 0, NULL);
  move("to a place", MREMAP_FIXED, map(2 * kBytes));
  move("leaving the place", MREMAP_DONTUNMAP, NULL);
}
