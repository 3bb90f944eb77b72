// As many mappings of files as there is room for, then the middle is taken out of one: mapped over, with memory and with a file, and
// unmapped. Either that is refused, or the end that stays is there for other threads, too.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 4096, kMost = 1 << 14, kMemory = MAP_PRIVATE | MAP_ANONYMOUS };

static pthread_barrier_t asked, answered;
static volatile char* place;
static char seen;
static int fd;

static void* other(void* unused) {
  for (;;) {
    pthread_barrier_wait(&asked);
    if (!place) return unused;
    seen = *place;
    pthread_barrier_wait(&answered);
  }
}
static char by_other(char* at) {
  place = at;
  pthread_barrier_wait(&asked);
  if (at) pthread_barrier_wait(&answered);
  return seen;
}
static char* map(char* at, int pages, int flags) {
  return mmap(at, pages * kPage, PROT_READ, flags, flags & MAP_ANONYMOUS ? -1 : fd, 0);
}
static void told(const char* what, int done, char* first) {
  printf("%s: %s", what, done ? "done" : errno == ENOMEM ? "no room" : "?");
  fflush(stdout);
  printf(" %c\n", by_other(first + 2 * kPage));
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_barrier_init(&asked, NULL, 2);
  pthread_barrier_init(&answered, NULL, 2);
  pthread_create(&thread, NULL, other, NULL);
  fd = memfd_create("pages", 0);
  for (int i = 0; i < 3 * kPage; ++i) write(fd, &"abc"[i / kPage], 1);
  char *first[5], *one, *last = NULL;
  for (int i = 0; i < 5; ++i) first[i] = map(NULL, 3, MAP_SHARED);
  for (int made = 0; made < kMost && (one = map(NULL, 1, MAP_SHARED)) != MAP_FAILED; ++made) last = one;
#define MIDDLE(i) (first[i] + kPage)
  told("memory", map(MIDDLE(0), 1, kMemory | MAP_FIXED) == MIDDLE(0), first[0]);
  told("nothing", munmap(MIDDLE(1), kPage) == 0, first[1]);
  munmap(last, kPage);
  told("file, with room for one", map(MIDDLE(2), 1, MAP_SHARED | MAP_FIXED) == MIDDLE(2), first[2]);
  munmap(map(NULL, 1, MAP_SHARED), kPage);
  told("nothing, with room", munmap(MIDDLE(3), kPage) == 0, first[3]);
  by_other(NULL);
  pthread_join(thread, NULL);
  return 0;
}
