// Memory that is to be empty in a forked child (MADV_WIPEONFORK), asked for before and after the first thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int *early, *late, *kept, *used_again;

static int* wiped_page(void) {
  int* const page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) printf("refused\n");
  *page = 1;
  return page;
}

static void* look(void* unused) {
  printf("thread: %d %d %d %d\n", *early, *late, *kept, *used_again);
  fflush(stdout);
  if (fork() == 0) {
    printf("child: %d %d %d %d\n", *early, *late, *kept, *used_again);
    *early = *late = 2;
    fflush(stdout);
    if (fork() == 0) {
      printf("its child: %d %d\n", *early, *late);
      fflush(stdout);
      _exit(0);
    }
    wait(NULL);
    _exit(0);
  }
  wait(NULL);
  return NULL;
}

static void* nothing(void* unused) { return NULL; }

int main(void) {
  early = wiped_page();
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  late = wiped_page();
  kept = wiped_page();
  madvise(kept, 4096, MADV_KEEPONFORK);
  int* const before = wiped_page();
  munmap(before, 4096);
  used_again = mmap(before, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  *used_again = 1;
  pthread_create(&thread, NULL, look, NULL);
  pthread_join(thread, NULL);
  printf("main: %d %d\n", *early, *late);
}
