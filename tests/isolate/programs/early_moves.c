// mremap of files mapped before the first thread, as another thread sees them: one that grows, one that is had twice and one that moves, into
// memory mapped later, and private ones of which something or nothing was written.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kLarge = 4 << 20, kNext = 8 };
static char *grown, *twice, *moved, *read_only, *written, *untouched, *room;
static int file;

static char* map(size_t bytes, int protection, int flags) {
  return mmap(NULL, bytes, protection, flags, flags & MAP_ANONYMOUS ? -1 : file, 0);
}
static char* grow(char* low, size_t bytes) { return mremap(low, bytes, 2 * bytes, MREMAP_MAYMOVE); }
static void put(char* low, size_t bytes) { mremap(low, bytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, room), room += kBytes; }

static void* move(void* unused) {
  grown = grow(grown, kBytes), read_only = grow(read_only, kBytes);
  written[1] = 'w';
  written = grow(written, kLarge), untouched = grow(untouched, kLarge);
  room = map(3 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
  put(twice, 0), put(twice, 0), put(moved, kBytes);
  room -= 3 * kBytes;
  return unused;
}

static void* use(void* unused) {
  grown[kBytes] = 'g';
  room[1] = 't', room[2 * kBytes + 2] = 'm';
  printf("%c%c%c%c\n", room[kBytes + 1], twice[1], read_only[kBytes], untouched[kLarge]);
  written[2] = untouched[2] = 'p';
  printf("%c%c%c%c\n", written[1], written[kLarge - 1], written[2], untouched[2]);
  mprotect(room, kBytes, PROT_READ);
  munmap(room, 3 * kBytes);
  for (int i = 0; i < kNext; ++i) map(3 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)[1] = 'n';
  return unused;
}

static void run(void* (*start)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, start, NULL);
  pthread_join(thread, NULL);
}

int main(void) {
  char page[4096];
  for (int i = 0; i < sizeof page; ++i) page[i] = 'a';
  file = memfd_create("early", 0);
  for (int i = 0; i < 2 * kLarge; i += sizeof page) write(file, page, sizeof page);
  const int both = PROT_READ | PROT_WRITE;
  grown = map(kBytes, both, MAP_SHARED), twice = map(kBytes, both, MAP_SHARED), moved = map(kBytes, both, MAP_SHARED);
  read_only = map(kBytes, PROT_READ, MAP_PRIVATE);
  written = map(kLarge, both, MAP_PRIVATE), untouched = map(kLarge, both, MAP_PRIVATE);
  run(move), run(use);
  pread(file, page, 3, 0);
  printf("file: %.3s", page);
  pread(file, page, 1, kBytes);
  printf("%c, %c%c\n", page[0], grown[kBytes], untouched[2]);
}
