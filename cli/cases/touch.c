/* Faults 100 MiB in and drops it, eight times: memory comes and goes while nothing is computed. Usage: touch [TIMES] */
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char** values) {
  size_t bytes = (size_t)100 << 20;
  int times = count > 1 ? atoi(values[1]) : 8;
  for (int i = 0; i < times; i++) {
    volatile char* pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 1;
    for (size_t at = 0; at < bytes; at += 4096) pages[at] = 1;
    munmap((void*)pages, bytes);
  }
  return 0;
}
