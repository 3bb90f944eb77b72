// What cannot be mapped privately: the error, and what lay there before is still there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void* maps(void* name) {
  int pipes[2];
  pipe(pipes);
  const int own = open(name, O_RDONLY);
  const struct { const char* what; int file; off_t offset; } cases[] = {
      {"not readable", open("/dev/null", O_WRONLY), 0}, {"a device", open("/dev/null", O_RDWR), 0}, {"no file", 777, 0},
      {"a folder", open("/", O_RDONLY), 0}, {"a pipe", pipes[0], 0}, {"a path", open(name, O_PATH), 0},
      {"of the kernel", open("/proc/self/stat", O_RDONLY), 0}, {"before the begin", own, -4096}, {"a file", own, 0}};
  char* const low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  low[0] = 7;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    errno = 0;
    const void* const at = mmap(low, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, cases[i].file, cases[i].offset);
    printf("%s: %s, %d\n", cases[i].what, at == MAP_FAILED ? strerror(errno) : "mapped", low[0]);
  }
  return NULL;
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, maps, arguments[0]);
  pthread_join(thread, NULL);
}
