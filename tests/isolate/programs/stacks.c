// Threads on stacks of the program's own, which other threads have not seen: what such a thread asks all to do, they must be able to read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { kBytes = 1 << 20 };
static void on_any(int n) {}
static void* work(void* name) {
  int status = 0, done = 0;
  for (int i = 0; i < 10; ++i) done += signal(SIGUSR1, i % 2 ? on_any : SIG_IGN) != SIG_ERR;
  done += setgid(getgid()) == 0;
  done += prctl(PR_GET_PDEATHSIG, &status) == 0;
  const int fd = memfd_create("locked", 0);  // what goes with it goes in all threads
  ftruncate(fd, kBytes);
  flock(fd, LOCK_EX);
  char* const p = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  p[0] = 1;
  done += mmap(p, kBytes / 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == p;
  done += munmap(p, kBytes) == 0;
  printf("%s: %d\n", (char*)name, done);
  return name;
}
static void on(char* stack, char* name) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kBytes);
  pthread_create(&thread, &attributes, work, name);
  pthread_join(thread, NULL);
}

int main(void) {
  char* const reserved = mmap(NULL, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t other;
  pthread_create(&other, NULL, (void* (*)(void*))pause, NULL);
  usleep(10000);
  mprotect(reserved, kBytes, PROT_READ | PROT_WRITE);
  on(reserved, "opened later");
  on(mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), "mapped later");
  on(mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), "memory");
  return 0;
}
