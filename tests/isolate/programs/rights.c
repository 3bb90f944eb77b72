// Rights that one thread takes and another gives back: system calls have them in every thread; and what is dropped, reads as zeros.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kPage = 4096 };
static char data[kBytes] __attribute__((aligned(4096)));
static char* volatile shared;
static pthread_barrier_t turn;
static int ends[2];

static void meet(void) { pthread_barrier_wait(&turn); }

static int read_into(char* to) {
  write(ends[1], "x", 1);
  const int got = read(ends[0], to, 1);
  if (got == 1) return 1;
  char dropped;
  read(ends[0], &dropped, 1);
  return -errno;
}

static void* takes(void* memory) {
  for (int round = 0; round < 3; round++) {
    if (memory) shared = memory;
    else shared = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(shared, kBytes, round == 1 ? PROT_READ : PROT_NONE);
    meet();  // main gives
    meet();
    printf("given: %d\n", read_into(shared + kPage));
    mprotect(shared + kPage, kPage, PROT_NONE);
    mprotect(shared + kPage, kPage, PROT_READ | PROT_WRITE);
    printf("own: %d\n", read_into(shared + kPage));
    mprotect(shared, kBytes, PROT_READ);
    meet();  // main puts fresh memory there
    meet();
    printf("fresh: %d\n", read_into(shared + kPage));
    meet();
  }
  return NULL;
}

static void by_two_threads(char* memory) {
  pthread_t thread;
  pthread_create(&thread, NULL, takes, memory);
  for (int round = 0; round < 3; round++) {
    meet();
    mprotect(shared, kBytes, PROT_READ | PROT_WRITE);
    meet();
    meet();
    mmap(shared, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    meet();
    meet();
  }
  pthread_join(thread, NULL);
}

static void drop(const char* name, char* p, int rights) {
  memset(p, 7, kBytes);
  mprotect(p, kBytes, rights);
  printf("%s: %d", name, madvise(p, kBytes, MADV_DONTNEED));
  mprotect(p, kBytes, PROT_READ | PROT_WRITE);
  printf(" %d", p[0]);
  memset(p, 7, kBytes);
  mprotect(p, kBytes, rights);
  mmap(p, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  p[0]++;
  printf(" %d", p[0]);
  memset(p, 7, kBytes);
  mprotect(p, kBytes, rights);
  munmap(p, kBytes);
  mmap(p, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  p[0]++;
  printf(" %d\n", p[0]);
}

int main(void) {
  setbuf(stdout, NULL);
  pipe(ends);
  pthread_barrier_init(&turn, NULL, 2);
  by_two_threads(NULL);
  by_two_threads(data);
  char* const hinted = mmap((void*)0x200000000000, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  by_two_threads(hinted);
  char* const anywhere = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int rights = PROT_NONE; rights <= PROT_READ; rights++) {
    drop("anywhere", anywhere, rights);
    drop("data", data, rights);
    drop("hinted", hinted, rights);
  }
}
