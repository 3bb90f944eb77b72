// Memory that there cannot be: more than there are addresses, or than the limit lets the program have.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static void* nothing(void* unused) { return unused; }
static void* waits(void* unused) { for (;;) pause(); }

static void* map(size_t bytes, int fd) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
}

static void ask_for_too_much(void) {
  int asked = 0, refused = 0, allocated = 0;
  for (int bits = 47; bits <= 64; ++bits)
    for (size_t less = 1; less < 1ul << (bits - 1) && less < 1ul << 52; less *= 16) {
      const size_t bytes = (bits == 64 ? 0 : 1ul << bits) - less;
      ++asked;
      refused += bits == 47 || (map(bytes, -1) == MAP_FAILED && errno == ENOMEM);
      allocated += bits > 47 && malloc(bytes) != NULL;
    }
  printf("all refused %d, allocated %d\n", asked == refused, allocated);
}

static void grow_too_much(void) {
  char* memory = map(8192, -1);
  memory[4096] = 7;
  void* const most = mremap(memory, 8192, SIZE_MAX, MREMAP_MAYMOVE);
  printf("%s, still there %d\n", most == MAP_FAILED ? strerror(errno) : "?", memory[4096]);
  void* const half = mremap(memory, 8192, 1ul << 63, MREMAP_MAYMOVE);
  printf("grown %d, still there %d\n", half != MAP_FAILED, memory[4096]);
}

static void stay_within_limit(void) {
  const struct rlimit most = {(1ul << 40) + (200ul << 30), RLIM_INFINITY};  // the runtime has a terabyte itself
  setrlimit(RLIMIT_AS, &most);
  char* big = map(1ul << 41, -1);
  printf("beyond the limit: %s\n", big == MAP_FAILED ? strerror(errno) : "?");
  if (big != MAP_FAILED) big[1ul << 40] = 1;
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, waits, NULL);
  ask_for_too_much();
  grow_too_much();
  FILE* file = fopen(arguments[0], "r");
  const char* begin = map(4096, fileno(file));  // its place comes after those that could not be
  printf("file %s\n", begin == MAP_FAILED ? strerror(errno) : memcmp(begin, "\177ELF", 4) ? "?" : "mapped");
  stay_within_limit();
}
