// Memory where another thread's stack was: the kernel may write to all of it, whichever thread asks.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kCount = 8 };
static sem_t go;
static size_t bytes;
static char* volatile buffers[kCount];
static pthread_t reader;

static void* reads(void* unused) {
  sem_wait(&go);
  size_t total = 0;
  const int zeros = open("/dev/zero", O_RDONLY);
  for (int i = 0; i < kCount; ++i)
    for (size_t at = 0; at < bytes; at += 4096) total += read(zeros, buffers[i] + at, 4096) == 4096;
  printf("all: %d\n", total == kCount * bytes / 4096);
  return unused;
}
static void* makes_reader(void* unused) { return pthread_create(&reader, NULL, reads, NULL), unused; }
static void* nothing(void* unused) { return unused; }

int main(void) {
  pthread_attr_t attributes;
  size_t guard;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_getguardsize(&attributes, &guard);
  bytes += guard;
  sem_init(&go, 0, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, makes_reader, NULL);
  pthread_join(thread, NULL);
  usleep(20000);
  pthread_attr_setstacksize(&attributes, 32 << 20);
  for (int i = 0; i < 3; ++i) pthread_create(&thread, &attributes, nothing, NULL), pthread_join(thread, NULL);
  for (int i = 0; i < kCount; ++i) buffers[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sem_post(&go);
  pthread_join(reader, NULL);
}
