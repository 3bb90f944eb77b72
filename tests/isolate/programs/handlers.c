/* Mappings of files while signals come: handlers that read, map and unmap, and the runtime's own calls to all threads. What a thread
 * was doing when the signal came must not be what its handler waits for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kSmall = 64 << 10, kLarge = 4 << 20 };
#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static int fd, stop;
static char* volatile shown;
static int seen;

static char* map(size_t bytes, int protection, int flags) {
  char* const p = mmap(NULL, bytes, protection, flags, fd, 0);
  EXPECT(p != MAP_FAILED);
  return p;
}
static void* maps_and_unmaps(void* unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) munmap(map(kSmall, PROT_READ, MAP_SHARED), kSmall);
  return unused;
}

static void reads(int signal) {
  if (shown) __atomic_fetch_add(&seen, shown[0] + 1, __ATOMIC_RELAXED);
}
static void maps(int signal) {
  munmap(map(4096, PROT_READ, MAP_SHARED), 4096);
  __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
}

/* Signals to a thread that maps and unmaps. */
static void signals(void (*handler)(int), int times) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, maps_and_unmaps, NULL) == 0);
  for (int i = 0; i < times; ++i) {
    char* const fresh = map(4096, PROT_READ, MAP_SHARED);
    const int before = __atomic_load_n(&seen, __ATOMIC_RELAXED);
    shown = fresh;
    pthread_kill(thread, SIGUSR1);
    do usleep(200 + i % 97);
    while (__atomic_load_n(&seen, __ATOMIC_RELAXED) == before);
    shown = NULL;
    munmap(fresh, 4096);
  }
  stop = 1;
  pthread_join(thread, NULL);
}

static void writes_private(int times) {
  for (int i = 0; i < times; ++i) {
    char* const p = map(kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    p[5000] = 1;
    EXPECT(p[3 << 20] == 0);
    p[3 << 20] = 2;
    munmap(p, kLarge);
  }
}

int main(int count, char** arguments) {
  const char* const what = arguments[1];
  fd = open(arguments[2], O_RDWR | O_CREAT, 0600);
  EXPECT(fd >= 0 && ftruncate(fd, kLarge) == 0);
  pthread_t thread;
  if (strcmp(what, "reads") == 0) signals(reads, 2000);
  if (strcmp(what, "maps") == 0) signals(maps, 2000);
  if (strcmp(what, "writes") == 0) {
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i) EXPECT(pthread_create(&threads[i], NULL, maps_and_unmaps, NULL) == 0);
    writes_private(300);
    stop = 1;
    for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  }
  if (strcmp(what, "one after the other") == 0) {
    EXPECT(pthread_create(&thread, NULL, (void* (*)(void*))pause, NULL) == 0);
    writes_private(1500);
  }
  puts("done");
  exit(0);
}
