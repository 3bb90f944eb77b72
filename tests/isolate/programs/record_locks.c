/* Record locks (fcntl, lockf) of files that are mapped as well. A lock goes when the program unlocks or closes the file, and not by
 * anything that is done to mappings. Another process, there before the first thread, tells who is locked out. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

enum { kPage = 4096, kBytes = 8 * kPage, kMany = 150 };
#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static const char* folder;
static const char* path_of(int file) {
  static __thread char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, file);
  return path;
}
static int opened(int file) {
  const int fd = open(path_of(file), O_RDWR | O_CREAT, 0600);
  EXPECT(fd >= 0 && ftruncate(fd, kBytes) == 0);
  return fd;
}
static int try_lock(int fd, int command, short type, off_t from, off_t bytes) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = bytes};
  return fcntl(fd, command, &lock);
}
static char* map(int fd) {
  char* const p = mmap(NULL, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT(p != MAP_FAILED);
  return p;
}
static void map_and_unmap(int fd) { EXPECT(munmap(map(fd), kBytes) == 0); }

/* The other process: 'a'sks, 'l'ocks bytes, 'u'nlocks, 'w'aits a little and unlocks. */
static int other[2];
struct question {
  char what;
  int file;
};
static void answer_questions(void) {
  static int fds[1000];
  close(other[0]);
  struct question q;
  while (read(other[1], &q, sizeof q) == sizeof q) {
    char answer = 0;
    if (!fds[q.file]) fds[q.file] = open(path_of(q.file), O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1000};
    if (q.what == 'a') fcntl(fds[q.file], F_GETLK, &lock), answer = lock.l_type != F_UNLCK;
    if (q.what == 'l') answer = try_lock(fds[q.file], F_SETLK, F_WRLCK, q.file < 40 ? 100000 : 0, 1) == 0;
    if (q.what == 'u') answer = try_lock(fds[q.file], F_SETLK, F_UNLCK, 0, 0) == 0;
    write(other[1], &answer, 1);
    if (q.what == 'w') usleep(100000), try_lock(fds[q.file], F_SETLK, F_UNLCK, 0, 0);
  }
  _exit(0);
}
static int ask(char what, int file) {
  char answer;
  EXPECT(write(other[0], &(struct question){what, file}, sizeof(struct question)) == sizeof(struct question));
  EXPECT(read(other[0], &answer, 1) == 1);
  return answer;
}
static int held(int file) { return ask('a', file); }

static void* in_thread(void* (*what)(void*), void* argument) {
  pthread_t thread;
  void* result;
  EXPECT(pthread_create(&thread, NULL, what, argument) == 0 && pthread_join(thread, &result) == 0);
  return result;
}
static void* locks(void* fd) {
  EXPECT(try_lock((int)(long)fd, F_SETLK, F_WRLCK, 0, 10) == 0);
  return NULL;
}
static void* maps(void* fd) { return map((int)(long)fd); }
static void* unmaps(void* at) {
  EXPECT(munmap(at, kBytes) == 0);
  return NULL;
}
static void* waits_for_lock(void* fd) {
  EXPECT(try_lock((int)(long)fd, F_SETLKW, F_WRLCK, 0, 0) == 0);
  return NULL;
}

static void ways_to_lock(int early) {
  map_and_unmap(early);
  printf("from before the first thread: %d\n", held(0));
  int fd = opened(1);
  char* const before = map(fd);
  EXPECT(try_lock(fd, F_SETLK, F_WRLCK, 0, 10) == 0 && munmap(before, kBytes) == 0);
  printf("fcntl: %d\n", held(1));
  fd = opened(2);
  EXPECT(lockf(fd, F_TLOCK, 10) == 0);
  map_and_unmap(fd);
  printf("lockf: %d\n", held(2));
  fd = opened(3);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  EXPECT(syscall(SYS_fcntl, fd, F_SETLK, &lock) == 0);
  map_and_unmap(fd);
  printf("syscall: %d\n", held(3));
  fd = opened(4);
  locks((void*)(long)fd);
  map_and_unmap(open(path_of(4), O_RDONLY));
  printf("by another descriptor: %d\n", held(4));
  fd = opened(5);
  in_thread(locks, (void*)(long)fd);
  in_thread(unmaps, in_thread(maps, (void*)(long)fd));
  printf("by threads that have ended: %d\n", held(5));
}

static void ways_to_unmap(void) {
  const int fd = opened(10);
  locks((void*)(long)fd);
  char* p = map(fd);
  for (int page = 1; page < 8; page += 2) EXPECT(munmap(p + page * kPage, kPage) == 0);
  EXPECT(munmap(p, kBytes) == 0);
  printf("piece by piece: %d\n", held(10));
  p = map(fd);
  EXPECT(mmap(p, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
  printf("mapped over: %d\n", held(10));
  p = map(fd);
  EXPECT(mmap(p, kBytes, PROT_READ, MAP_SHARED | MAP_FIXED, opened(11), 0) == p);
  printf("mapped over by a file: %d\n", held(10));
  const int reading = open(path_of(10), O_RDONLY);
  EXPECT(mmap(NULL, kBytes, PROT_WRITE, MAP_SHARED, reading, 0) == MAP_FAILED && errno == EACCES);
  printf("refused: %d\n", held(10));
  p = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  p[0] = 'x';
  EXPECT(munmap(p, 2 << 20) == 0);
  printf("private: %d\n", held(10));
}

static void ways_to_unlock(void) {
  const int fd = opened(20), before = descriptors();
  locks((void*)(long)fd);
  map_and_unmap(fd);
  EXPECT(held(20) && try_lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
  printf("unlocked: %d, descriptors %+d\n", held(20), descriptors() - before);
  locks((void*)(long)fd);
  map_and_unmap(fd);
  const int again = opened(20);
  EXPECT(held(20) && close(again) == 0);
  printf("closed: %d\n", held(20));
  map_and_unmap(fd);
  printf("descriptors after the next mapping %+d\n", descriptors() - before);
  locks((void*)(long)fd);
  map_and_unmap(fd);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {  // locks are not inherited, and what the child closes is its own
    map_and_unmap(fd);
    _exit(close(fd) == 0 && held(20) ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  printf("forked: %d %d\n", status, held(20));
}

/* Mappings by the thousand leave no descriptors behind, be the file locked by the program, by others, or both. */
static void many(void) {
  const int fd = opened(30);
  locks((void*)(long)fd);
  const int before = descriptors();
  for (int i = 0; i < 3000; ++i) map_and_unmap(fd);
  printf("mapped often: %d, few descriptors: %d\n", held(30), descriptors() - before <= 1);
  int all[kMany];
  for (int i = 0; i < kMany; ++i) locks((void*)(long)(all[i] = opened(100 + i)));
  for (int i = 0; i < kMany; ++i) map_and_unmap(all[i]);
  int kept = 0;
  for (int i = 0; i < kMany; ++i) kept += held(100 + i);
  printf("many files: %d of %d\n", kept, kMany);
  for (int i = 0; i < kMany; ++i) EXPECT(close(all[i]) == 0);
  EXPECT(opened(31) >= 0 && ask('l', 30) && ask('l', 31));
  const int few = descriptors();
  for (int i = 0; i < 500; ++i) {
    const int fresh = opened(31);
    EXPECT(try_lock(fresh, F_SETLK, F_WRLCK, 0, 10) == 0);
    map_and_unmap(fresh);
    EXPECT(close(fresh) == 0);
  }
  printf("opened often: %d, few descriptors: %d\n", held(30), descriptors() - few <= 70);
  EXPECT(ask('u', 30) && ask('u', 31));
}

/* Locks that are taken in the moment in which others let go of mappings. */
static int stop;
static void* maps_and_unmaps(void* fd) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) map_and_unmap((int)(long)fd);
  return NULL;
}
static void contended(void) {
  const int fd = opened(41);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&threads[i], NULL, maps_and_unmaps, (void*)(long)fd) == 0);
  int kept = 0;
  for (int i = 0; i < 2000; ++i) {
    locks((void*)(long)fd);
    kept += held(41);
    EXPECT(try_lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("while others unmap: %d\n", kept);
}

static void waiting(void) {
  const int fd = opened(40);
  pthread_t thread;
  EXPECT(ask('l', 40) && pthread_create(&thread, NULL, waits_for_lock, (void*)(long)fd) == 0);
  for (int i = 0; i < 20; ++i) map_and_unmap(fd), usleep(1000);
  ask('w', 40);
  for (int i = 0; i < 200; ++i) map_and_unmap(fd), usleep(1000);
  pthread_join(thread, NULL);
  map_and_unmap(fd);
  printf("waited for: %d\n", held(40));
  EXPECT(try_lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && ask('l', 40));
  EXPECT(pthread_create(&thread, NULL, waits_for_lock, (void*)(long)fd) == 0);
  usleep(20000);
  void* result = NULL;
  EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
  printf("cancelled: %d %d\n", result == PTHREAD_CANCELED, held(40));
  EXPECT(ask('u', 40));
}

static void other_commands(void) {
  const int fd = opened(50), copy = fcntl(fd, F_DUPFD_CLOEXEC, 200);
  printf("duplicate: %d %d\n", copy, fcntl(copy, F_GETFD));
  printf("flags: %d\n", fcntl(fd, F_GETFL) & O_ACCMODE);
  int pair[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && fcntl(pair[0], F_SETOWN, -getpgrp()) == 0);
  printf("owner: %d\n", fcntl(pair[0], F_GETOWN) == -getpgrp());
  EXPECT(fcntl(-1, F_GETFL) == -1 && errno == EBADF && try_lock(-1, F_SETLK, F_WRLCK, 0, 0) == -1 && errno == EBADF);
  EXPECT(fcntl(fd, F_SETLK, NULL) == -1 && errno == EFAULT && fcntl(fd, F_SETLKW, NULL) == -1 && errno == EFAULT);
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  EXPECT(fcntl(fd, F_OFD_SETLK, &whole) == 0);
  map_and_unmap(fd);
  printf("of the open file: %d", held(50));
  EXPECT(close(fd) == 0 && close(copy) == 0);
  printf(" %d\n", held(50));
}

int main(int count, char** arguments) {
  folder = arguments[1];
  if (count > 2) {
    other[0] = atoi(arguments[2]);
    printf("after exec: %d\n", held(60));
    return 0;
  }
  const struct rlimit limit = {2048, 2048};
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
  if (fork() == 0) answer_questions();
  close(other[1]);
  const int early = opened(0);
  locks((void*)(long)early);
  pthread_t thread;
  pthread_create(&thread, NULL, (void* (*)(void*))pause, NULL);
  ways_to_lock(early);
  ways_to_unmap();
  ways_to_unlock();
  many();
  contended();
  waiting();
  other_commands();
  const int last = opened(60);
  locks((void*)(long)last);
  map(last);
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {  // what is locked must be known without a descriptor more
  }
  fflush(stdout);
  char descriptor[20];
  snprintf(descriptor, sizeof descriptor, "%d", other[0]);
  execl("/proc/self/exe", arguments[0], folder, descriptor, NULL);
  return 1;
}
