// A program maps at addresses of its own choosing: where a file was before, beside one, or where something is. All threads see the same
// there, what comes later lies elsewhere, and nothing is replaced that was not to be.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 4096, kBytes = 4 * kPage, kRead = PROT_READ, kWrite = PROT_READ | PROT_WRITE, kKeep = MAP_FIXED_NOREPLACE };
enum { kMemory = MAP_PRIVATE | MAP_ANONYMOUS };

static const char* folder;
static char* volatile seen[3];
static pthread_barrier_t turn;
static void meet(void) { pthread_barrier_wait(&turn); }

/// One that has a name while it is open: nobody would notice that it stays mapped.
static int file_of(char c) {
  char name[200], page[kPage];
  static int count;
  snprintf(name, sizeof name, "%s/%d", folder, count++);
  FILE* const file = fopen(name, "w+");
  memset(page, c, sizeof page);
  for (int i = 0; i < 8; ++i) fwrite(page, 1, kPage, file);
  fflush(file);
  return fileno(file);
}

static void* looks(void* unused) {
  for (;;) {
    meet();
    if (!seen[0]) return unused;
    for (int i = 0; i < 3 && seen[i]; ++i) printf("%c", *seen[i]);
    meet();
  }
}
static void have_looked_at(char* a, char* b, char* c) {
  seen[0] = a, seen[1] = b, seen[2] = c;
  meet();
  if (a) meet();
}

static void where_a_file_was(void) {
  const struct {
    int rights, flags, of_file;
  } ways[] = {{kRead, MAP_SHARED | kKeep, 1}, {kRead, MAP_SHARED | MAP_FIXED, 1}, {kWrite, MAP_PRIVATE | kKeep, 1},
              {kWrite, MAP_PRIVATE | MAP_FIXED, 1}, {kWrite, kMemory | kKeep, 0}, {kWrite, kMemory | MAP_FIXED, 0}};
  for (int i = 0; i < sizeof ways / sizeof *ways; ++i) {
    char* const first = mmap(NULL, kBytes, kRead, MAP_SHARED, file_of('a'), 0);
    have_looked_at(first, NULL, NULL);
    munmap(first, kBytes);
    char* const second = mmap(first, kBytes, ways[i].rights, ways[i].flags, ways[i].of_file ? file_of('b') : -1, 0);
    if (!ways[i].of_file) *second = 'b';
    have_looked_at(second, NULL, NULL);
    printf(" %d %c\n", second == first, *second);
  }
}

/// It may be that there is no room.
static void beside_one(int bytes_between, int flags) {
  char* const first = mmap(NULL, kBytes, kRead, MAP_SHARED, file_of('a'), 0);
  const int is_memory = flags & MAP_ANONYMOUS;
  char* chosen = mmap(first + kBytes + bytes_between, 8 * kPage, is_memory ? kWrite : kRead, flags | kKeep, is_memory ? -1 : file_of('c'), 0);
  if (chosen == MAP_FAILED) chosen = mmap(NULL, 8 * kPage, kWrite, kMemory, -1, 0), is_memory || memset(chosen, 'c', 8 * kPage);
  if (is_memory) memset(chosen, 'c', 8 * kPage);
  char* later = NULL;
  for (int i = 0; i < 3; ++i) later = mmap(NULL, kBytes, kRead, MAP_SHARED, file_of('d'), 0);
  int wrong = 0;
  for (int i = 0; i < 8; ++i) wrong += chosen[i * kPage] != 'c';
  have_looked_at(first, chosen, later);
  printf(" %d\n", wrong);
}

static void is_kept(char* there, int flags) {
  *there = 'x';
  errno = 0;
  const void* const got = mmap(there, kPage, kRead, flags | kKeep, flags & MAP_ANONYMOUS ? -1 : file_of('b'), 0);
  printf("%d %d %c\n", got == MAP_FAILED, errno == EEXIST, *there);
}

/// A file that may not be written has no such mapping; that takes nothing.
static void where_memory_was(char* there) {
  char name[200];
  snprintf(name, sizeof name, "%s/0", folder);
  errno = 0;
  const void* const refused = mmap(there, kPage, kWrite, MAP_SHARED | kKeep, open(name, O_RDONLY), 0);
  printf("%d %d\n", refused == MAP_FAILED, errno == EACCES);
  char* const file = mmap(there, kPage, kRead, MAP_SHARED | kKeep, file_of('b'), 0);
  char* const zeros = mmap(there + kPage, kPage, kWrite, kMemory | kKeep, -1, 0);
  if (zeros != MAP_FAILED) *zeros += 'c';
  have_looked_at(file == there ? file : "-", zeros == there + kPage ? zeros : "-", NULL);
  printf("\n");
}

int main(int count, char** arguments) {
  static char data[2 * kPage];
  pthread_t thread;
  folder = arguments[1];
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, looks, NULL);
  where_a_file_was();
  beside_one(0, MAP_SHARED), beside_one(0, kMemory), beside_one(1 << 20, kMemory);
  char* const memory = mmap(NULL, kBytes, kWrite, kMemory, -1, 0);
  is_kept(memory, MAP_SHARED), is_kept(data + kPage - (unsigned long)data % kPage, MAP_SHARED);
  is_kept(mmap(NULL, kBytes, kWrite, MAP_SHARED, file_of('a'), 0), kMemory);
  munmap(memory, kBytes);
  where_memory_was(memory);
  have_looked_at(NULL, NULL, NULL);
  pthread_join(thread, NULL);
  return 0;
}
