// Stacks in large private mappings of a file and of /dev/zero, which is memory, from before and after the first thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kStack = 4 << 20, kPage = 4096 };
static char *early[2], *late[2];
static int files[2];

static void* go_deep(void* unused) {
  volatile char deep[kStack - (1 << 20)];
  for (long at = sizeof deep - 1; at >= 0; at -= kPage) deep[at] = 's';
  return unused;
}

static void map(char** stacks) {
  for (int i = 0; i < 2; ++i) stacks[i] = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[i], 0);
}

static void* map_late(void* unused) { return map(late), unused; }

static void run_on(char* stack, void* (*start)(void*)) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (stack) pthread_attr_setstack(&attributes, stack, kStack);
  pthread_create(&thread, &attributes, start, NULL);
  pthread_join(thread, NULL);
}

int main(void) {
  files[0] = memfd_create("stack", 0), files[1] = open("/dev/zero", O_RDWR);
  ftruncate(files[0], kStack);
  map(early);
  early[1][1] = 'e';
  run_on(NULL, map_late);
  printf("%c\n", early[1][1]);
  for (int i = 0; i < 2; ++i) run_on(early[i], go_deep), run_on(late[i], go_deep);
  late[1][1] = 'l';
  madvise(late[1], kStack, MADV_DONTNEED);
  printf("forgotten: %d\n", late[1][1]);
}
