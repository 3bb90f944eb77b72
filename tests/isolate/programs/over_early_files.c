// MAP_FIXED over what was mapped before the first thread: memory and a file beside it, memory and nothing beside it, and a file in a
// gigabyte in which the program has chosen addresses; and a file that no child is to have.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kBoth = PROT_READ | PROT_WRITE };
static char *amid, *chosen = (char*)0x123400000000, *holed = (char*)0x123500000000, *kept;
static int file;

static char* map(char* low, size_t bytes, int flags) { return mmap(low, bytes, kBoth, flags, flags & MAP_ANONYMOUS ? -1 : file, 0); }

static void tell(const char* what, const char* low) {
  char inside = 0;
  pread(file, &inside, 1, 0);
  printf("%s: %d, file %c\n", what, *low, inside);
}

static void* use(void* unused) {
  map(amid, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  map(holed, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  tell("holed", holed + kBytes);
  map(chosen - kBytes, kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE);
  map(chosen - kBytes, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  munmap(chosen + kBytes, kBytes);
  map(chosen + kBytes, kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE);
  char* const places[] = {amid + kBytes, chosen, chosen + kBytes};
  for (int i = 0; i < 3; ++i) {
    tell("over a file", places[i]);
    *places[i] = 'w';
  }
  tell("kept", kept);
  return unused;
}

int main(void) {
  file = memfd_create("early", 0);
  ftruncate(file, kBytes);
  pwrite(file, "f", 1, 0);
  amid = map(NULL, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS);
  map(amid + kBytes, kBytes, MAP_SHARED | MAP_FIXED);
  kept = map(NULL, kBytes, MAP_SHARED);
  map(holed, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  munmap(holed + kBytes, kBytes);
  map(chosen, kBytes, MAP_SHARED | MAP_FIXED), map(chosen + kBytes, kBytes, MAP_SHARED | MAP_FIXED);
  madvise(kept, kBytes, MADV_DONTFORK);
  pthread_t thread;
  pthread_create(&thread, NULL, use, NULL);
  pthread_join(thread, NULL);
  tell("amid", amid + kBytes), tell("chosen", chosen), tell("chosen", chosen + kBytes);
}
