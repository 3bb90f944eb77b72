// More is reserved than the runtime has room for, as databases do: parts of it are opened, given back and inherited as any other memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t kBytes = 1ul << 38, kPart = 1ul << 20;
static char* low;

static char* part(int i) { return low + i * (kBytes / 4) + 3 * kPart; }
static void* nothing(void* unused) { return unused; }
static void* fills(void* unused) {
  for (int i = 0; i < 4; ++i) {
    if (mprotect(part(i), kPart, PROT_READ | PROT_WRITE) != 0) perror("mprotect");
    memset(part(i), 'a' + i, kPart);
  }
  return unused;
}
static void show(const char* when) {
  printf("%s:", when);
  for (int i = 0; i < 4; ++i) printf(" %d", part(i)[kPart - 1]);
  printf("\n");
  fflush(stdout);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  low = mmap(NULL, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (low == MAP_FAILED) return perror("mmap"), 1;
  pthread_create(&thread, NULL, fills, NULL);
  pthread_join(thread, NULL);
  show("filled");
  if (fork() == 0) {
    memset(part(1), 'x', kPart);
    show("child");
    _exit(0);
  }
  wait(NULL);
  madvise(part(2), kPart, MADV_DONTNEED);
  mmap(part(3), kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  show("given back");
  printf("unmapped: %d\n", munmap(low, kBytes));
}
