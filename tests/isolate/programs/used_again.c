// Addresses for very large reservations do not run out while the program gives them back, nor by those that are refused.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void* nothing(void* unused) { return unused; }

static char* reserve(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

static void give_back(size_t bytes, int times) {
  int refused = 0, used = 0;
  for (int i = 0; i < times; ++i) {
    char* memory = reserve(bytes);
    if (memory == MAP_FAILED) {
      ++refused;
      continue;
    }
    used += memory[bytes / 2] != 0;
    memory[bytes / 2] = 1;
    munmap(memory, bytes);
  }
  printf("refused %d, used before %d\n", refused, used);
}

static void be_refused(size_t bytes) {
  const struct rlimit less = {(1ul << 40) + (100ul << 30), RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
  int refused = 0;
  setrlimit(RLIMIT_AS, &less);
  for (int i = 0; i < 100; ++i) refused += reserve(bytes) == MAP_FAILED;
  setrlimit(RLIMIT_AS, &all);
  printf("refused %d\n", refused);
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  give_back(5ul << 40, 30);
  be_refused(5ul << 40);
  const int file = open(arguments[0], O_RDONLY);
  const char* begin = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  printf("file %s\n", begin == MAP_FAILED ? strerror(errno) : memcmp(begin, "\177ELF", 4) ? "?" : "mapped");
  give_back(5ul << 40, 3);
}
