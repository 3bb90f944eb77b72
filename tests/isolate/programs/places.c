/* Addresses that are used more than once, after a second thread is there: what was unmapped before is unmapped again, mapped over, or
 * lies over a file. No two mappings may share a page, no file may change, and the other thread sees what lies there now. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 64, kBytes = kPages * kPage };
#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static pthread_barrier_t asked, answered;
static const volatile char* place;
static char seen;

static void* other(void* none) {
  for (;; pthread_barrier_wait(&answered)) {
    pthread_barrier_wait(&asked);
    if (!place) return none;
    seen = *place;
  }
}
static char seen_by_other(const void* at) {
  place = at;
  pthread_barrier_wait(&asked);
  pthread_barrier_wait(&answered);
  return seen;
}

static char* map(void* at, size_t bytes, int protection, int flags, int fd) {
  char* const p = mmap(at, bytes, protection, flags, fd, 0);
  EXPECT(p != MAP_FAILED && (!(flags & MAP_FIXED) || p == at));
  return p;
}
static char* map_some(size_t bytes) { return map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1); }

/* Fresh mappings read as zeros, and none takes another's page. */
static void expect_apart(int count) {
  char* held[200];
  for (int i = 0; i < count; ++i) {
    held[i] = map_some(kBytes);
    for (int k = 0; k < kBytes; k += kPage) EXPECT(held[i][k] == 0);
    memset(held[i], i + 1, kBytes);
  }
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < kBytes; k += kPage) EXPECT(held[i][k] == (char)(i + 1));
  for (int i = 0; i < count; ++i) EXPECT(munmap(held[i], kBytes) == 0);
}

static int file_of(char content) {
  const int fd = memfd_create("content", 0);
  char page[kPage];
  memset(page, content, kPage);
  for (int i = 0; i < kPages; ++i) EXPECT(write(fd, page, kPage) == kPage);
  return fd;
}
static char in_file(int fd, off_t at) {
  char c = 0;
  EXPECT(pread(fd, &c, 1, at) == 1);
  return c;
}

static void unmapped_again(void) {
  char* const twice = map_some(kBytes);
  memset(twice, 1, kBytes);
  EXPECT(munmap(twice, kBytes) == 0 && munmap(twice, kBytes) == 0);
  expect_apart(4);
  char* const holed = map_some(64 * kBytes);
  memset(holed, 1, 64 * kBytes);
  EXPECT(munmap(holed + kBytes, kBytes) == 0 && munmap(holed, 64 * kBytes) == 0);
  expect_apart(150);
}

static void mapped_over(void) {
  char* const p = map_some(2 * kBytes);
  memset(p, 1, 2 * kBytes);
  EXPECT(munmap(p + kBytes, kBytes) == 0);
  map(p, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
  memset(p, 7, 2 * kBytes);
  expect_apart(8);
  for (int k = 0; k < 2 * kBytes; k += kPage) EXPECT(p[k] == 7);
}

static void over_a_file(int fd, char* file) {
  EXPECT(seen_by_other(file + 5) == 'F');
  map(file, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
  EXPECT(file[5] == 0 && seen_by_other(file + 5) == 0);
  memset(file, 'X', kBytes);
  EXPECT(seen_by_other(file + 5) == 'X');
  EXPECT(in_file(fd, 5) == 'F' && in_file(fd, 9 * kPage) == 'F');
}

static void files_over_memory(char* reserved) {
  const int fd = memfd_create("ring", 0);
  EXPECT(ftruncate(fd, kBytes) == 0);
  map(reserved, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd);
  map(reserved + kBytes, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd);
  memset(reserved, 'R', kBytes);
  EXPECT(reserved[kBytes] == 'R' && seen_by_other(reserved) == 'R' && seen_by_other(reserved + kBytes) == 'R');
  const int next = file_of('N');
  map(reserved, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, next);
  EXPECT(reserved[3] == 'N' && seen_by_other(reserved + 3) == 'N' && seen_by_other(reserved + kBytes) == 'R');
}

/* A call on a range that is partly a file's: the file keeps its bytes, and nobody is given its place. */
static void file_within_memory(void) {
  const int fd = file_of('F');
  for (int before = 0; before < 3; ++before) {
    char* const all = map_some(3 * kBytes);
    memset(all, 1, 3 * kBytes);
    char* const file = map(all + before * kBytes, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd);
    EXPECT(madvise(all, 3 * kBytes, MADV_DONTNEED) == 0 && madvise(file, kBytes, MADV_DONTNEED) == 0);
    for (int k = 0; k < 3 * kBytes; k += kPage) EXPECT(all[k] == (k / kBytes == before ? 'F' : 0));
    EXPECT(munmap(all, 3 * kBytes) == 0);
    expect_apart(20);
    EXPECT(in_file(fd, 5) == 'F' && in_file(fd, kBytes - 1) == 'F');
  }
}

/* What a private mapping of a file shows behind its end, and when it is laid over memory that was used before. */
static void private_over_memory(char* reserved) {
  const int fd = file_of('P');
  EXPECT(ftruncate(fd, kPage + 3) == 0);
  char* const p = map(reserved, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
  memset(p, 1, 2 * kBytes);
  map(p + kPage, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd);
  EXPECT(seen_by_other(p) == 1 && seen_by_other(p + kPage) == 'P' && seen_by_other(p + 2 * kPage) == 'P' && p[3 * kPage] == 1);
  for (int k = 3; k < kPage; ++k) EXPECT(p[2 * kPage + k] == 0);
  const char* const part = map(NULL, 3, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
  EXPECT(part[kPage - 1] == 'P');
}

static void private_where_memory_was(char* p) {
  const int fd = file_of('P');
  memset(p, 1, kBytes);
  EXPECT(munmap(p, kBytes) == 0);
  map(p, kPage + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd);
  expect_apart(8);
  EXPECT(p[0] == 'P' && seen_by_other(p + kPage) == 'P' && munmap(p, 2 * kPage) == 0);
}

/* Over a large private file that is copied by the block when it is written: what lies there now is not. */
static sigjmp_buf back;
static void leave(int signal) { siglongjmp(back, 1); }
static void over_a_private_file(void) {
  enum { kLarge = 4 << 20 };
  const int fd = file_of('L'), next = file_of('N');
  EXPECT(ftruncate(fd, kLarge) == 0);
  char* const p = map(NULL, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
  p[kLarge / 2] = 1;
  map(p, kBytes, PROT_READ, MAP_SHARED | MAP_FIXED, next);
  map(p + kLarge / 2, kBytes, PROT_READ, MAP_SHARED | MAP_FIXED, next);
  signal(SIGSEGV, leave);
  volatile int faults = 0;
  if (sigsetjmp(back, 1) == 0) p[0] = 'X';
  else ++faults;
  if (sigsetjmp(back, 1) == 0) p[kLarge / 2] = 'X';
  else ++faults;
  signal(SIGSEGV, SIG_DFL);
  EXPECT(faults == 2 && in_file(next, 0) == 'N' && seen_by_other(p) == 'N' && seen_by_other(p + kLarge / 2) == 'N');
  p[kLarge - 1] = 2;
  EXPECT(seen_by_other(p + kLarge - 1) == 2 && munmap(p, kLarge) == 0);
}

static void runs_from_a_private_mapping(void) {
  const unsigned char returns_7[] = {0xb8, 7, 0, 0, 0, 0xc3};
  const int fd = file_of(0);
  EXPECT(pwrite(fd, returns_7, sizeof returns_7, 0) == sizeof returns_7);
  int (*const function)(void) = (int (*)(void))map(NULL, kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd);
  EXPECT(function() == 7);
}

static void locked_in_memory(void) {
  for (int i = 0; i < 20; ++i) {
    char* const p = map_some(kBytes);
    EXPECT(mlock(p, 4 * kPage) == 0);
    memset(p, 1, kBytes);
    EXPECT(munmap(p, kBytes) == 0);
  }
  expect_apart(40);
}

static void by_the_system_call(void) {
  char* const p = (char*)syscall(SYS_mmap, NULL, (size_t)kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(p != MAP_FAILED);
  p[9] = 'S';
  EXPECT(seen_by_other(p + 9) == 'S' && syscall(SYS_munmap, p, (size_t)kBytes) == 0);
}

/* Whether or not memory can be mapped over the file where files may not grow: no descriptor stays behind. */
static void refused_over_a_file(int fd) {
  struct rlimit before;
  EXPECT(getrlimit(RLIMIT_FSIZE, &before) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  int next[2];
  for (int i = 0; i < 2; ++i) {
    EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){kPage, before.rlim_max}) == 0);
    for (int k = 0; k < 10; ++k) {
      char* const p = map(NULL, kBytes, PROT_READ, MAP_SHARED, fd);
      mmap(p, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      EXPECT(munmap(p, kBytes) == 0);
    }
    EXPECT(setrlimit(RLIMIT_FSIZE, &before) == 0 && (next[i] = dup(fd)) >= 0 && close(next[i]) == 0);
  }
  EXPECT(next[0] == next[1]);
}

int main(void) {
  char* const reserved_before = map(NULL, 2 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  const int fd_before = file_of('F'), fd = file_of('F');
  char* const memory_before = map_some(kBytes);
  char* const around_before = map_some(3 * kBytes);
  map(around_before + kBytes, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_before);
  char* const file_before = map(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_before);
  pthread_barrier_init(&asked, NULL, 2);
  pthread_barrier_init(&answered, NULL, 2);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, other, NULL) == 0);
  unmapped_again();
  mapped_over();
  over_a_file(fd_before, file_before);
  over_a_file(fd, map(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd));
  files_over_memory(reserved_before);
  files_over_memory(map(NULL, 2 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  file_within_memory();
  private_over_memory(reserved_before);
  private_over_memory(map(NULL, 2 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  private_where_memory_was(map_some(kBytes));
  private_where_memory_was(memory_before);
  EXPECT(munmap(around_before, 3 * kBytes) == 0 && in_file(fd_before, kPage) == 'F');
  over_a_private_file();
  runs_from_a_private_mapping();
  locked_in_memory();
  by_the_system_call();
  refused_over_a_file(fd);
  place = NULL;
  pthread_barrier_wait(&asked);
  EXPECT(pthread_join(thread, NULL) == 0);
  puts("apart");
  return 0;
}
