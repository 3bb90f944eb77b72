// What the memory calls answer to requests that are wrong, and what mremap leaves behind.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>

#define ASK(call) (errno = 0, answer = (long)(call), printf("%s: %s %d\n", #call, answer == -1 ? "refused" : "done", errno))

static void* nothing(void* unused) { return NULL; }

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  long answer;
  char* p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASK(mremap(p, 1 << 16, 0, 0));
  ASK(mremap(p + 1, 4096, 8192, MREMAP_MAYMOVE));
  ASK(mremap(p, 4096, 8192, MREMAP_FIXED, p + 65536));
  ASK(mremap(p, 4096, 8192, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
  ASK(mremap(p, 4096, 4096, 64));
  ASK(mmap(NULL, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0));
  ASK(mmap(NULL, 4096, PROT_READ, 0, 0, 0));
  ASK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0));
  ASK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASK(mmap(NULL, SIZE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
  ASK(mmap(NULL, 1ul << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
  ASK(mmap(NULL, 1 << 25, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 25 << 26, -1, 0));
  ASK(munmap(p, 0));
  ASK(munmap(p + 1, 4096));
  ASK(mprotect(p + 1, 4096, PROT_READ));
  ASK(madvise(p, 4096, 12345));
  p[0] = 'a';
  ASK(madvise(p + 4096, 4096, 102));  // a guard, if the kernel has such
  ASK(madvise(p + 4096, 4096, 103));
  char* const q = mremap(p, 1 << 16, 1 << 16, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  printf("moved: %d %d, left: %d\n", q != p, q[0], p[0]);
}
