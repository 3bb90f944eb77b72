/* What the runtime's own descriptors of mapped files must not change: how many the program may open, which numbers are its own, and
 * what it finds in a mapping. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096 };
#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static const char* folder;
static int opened(int file) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, file);
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  EXPECT(fd >= 0 && ftruncate(fd, kPage) == 0);
  return fd;
}
static char* map(int fd) { return mmap(NULL, kPage, PROT_READ, MAP_SHARED, fd, 0); }
static void start(void* (*what)(void*)) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, what, NULL) == 0 && pthread_detach(thread) == 0);
}
static void* sleeps(void* unused) {
  for (;;) pause();
}

/* More mappings than the program may have descriptors, by a thread that may have more, and by one that has none left. */
static void* maps_many(void* unused) {
  int files = 0, shared = 0;
  for (int i = 0; i < 300; ++i) {
    const int fd = opened(i);
    files += map(fd) != MAP_FAILED;
    close(fd);
    shared += mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
  }
  printf("files %d, shared %d\n", files, shared);
  return unused;
}
static void limit_descriptors(int most) {
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max > 512);
  limit.rlim_cur = most;
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}
static void many(void) {
  limit_descriptors(256);
  start(sleeps);
  maps_many(NULL);
  limit_descriptors(128);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, maps_many, NULL) == 0 && pthread_join(thread, NULL) == 0);
  int descriptors = 0;
  while (open("/dev/null", O_RDONLY) >= 0) ++descriptors;
  EXPECT(mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  printf("descriptors %d, %s\n", descriptors, strerror(errno));
  limit_descriptors(512);
  maps_many(NULL);
}

/* The program closes every number, as daemons do, and maps another file. */
static char *volatile first, *volatile second;
static void* reads(void* unused) {
  while (!second) usleep(1000);
  printf("%s\n", *first == 'a' ? "as mapped" : "another file's bytes");
  fflush(stdout);
  exit(0);
}
static void closed(void) {
  start(reads);
  int fd = opened(0);
  EXPECT(pwrite(fd, "a", 1, 0) == 1);
  first = map(fd);
  close_range(3, ~0u, 0);
  fd = opened(1);
  EXPECT(pwrite(fd, "b", 1, 0) == 1);
  second = map(fd);
  pause();
}

/* The program takes all numbers that there are, the runtime's among them. */
static void taken(void) {
  const struct rlimit limit = {512, 512};
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  start(sleeps);
  char* p = map(opened(0));
  close_range(3, ~0u, 0);
  for (int fd = 3; fd < 512; ++fd) EXPECT(dup2(0, fd) == fd);
  munmap(p, kPage);
  close(3);
  p = map(opened(1));
  munmap(p, kPage);
  int left = 0;
  for (int fd = 4; fd < 512; ++fd) left += fcntl(fd, F_GETFD) >= 0;
  printf("own descriptors left: %d\n", left);
}

/* A time limit on waiting for a record lock, as programs make one: a handler jumps out of the call. */
static sigjmp_buf before;
static void jumps(int signal) { siglongjmp(before, 1); }
static int lock(int fd, int command) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(fd, command, &whole);
}
static void jumped(void) {
  start(sleeps);
  const int fd = opened(0);
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const pid_t other = fork();
  if (other == 0) {
    if (lock(opened(0), F_SETLK) == 0) write(ends[1], "x", 1);
    for (;;) pause();
  }
  char x;
  EXPECT(read(ends[0], &x, 1) == 1);
  signal(SIGALRM, jumps);
  const struct itimerval soon = {.it_value = {.tv_usec = 100000}};
  for (int i = 0; i < 6; ++i)  // more often than calls can be nested
    if (sigsetjmp(before, 1) == 0) {
      setitimer(ITIMER_REAL, &soon, NULL);
      lock(fd, F_SETLKW);
      printf("not reached\n");
    }
  kill(other, SIGKILL);
  EXPECT(waitpid(other, NULL, 0) == other);
  close(fd);
  for (int i = 0; i < 200; ++i) {
    const int again = opened(0);
    munmap(map(again), kPage);
    close(again);
  }
  int count = 0;
  for (int number = 0; number < 100000; ++number) count += fcntl(number, F_GETFD) >= 0;
  printf("few descriptors: %d\n", count < 20);
}

/* Mappings that another thread reads before they go. Nothing of them may stay: locks of the open file, a ban on executing or sealing
 * it, or more mappings than the kernel allows a process. */
static char *volatile given, *volatile taken_over;
static void* reads_all(void* unused) {
  for (char* p;;) {
    while ((p = given) == taken_over) sched_yield();
    EXPECT(p[0] == 'x');
    taken_over = p;
  }
}
static char* let_read(char* p) {
  given = p;
  while (taken_over != p) sched_yield();
  return p;
}
static int new_file(int file) {
  const int fd = opened(file);
  EXPECT(pwrite(fd, "x", 1, 0) == 1);
  return fd;
}
static void gone(void) {
  start(reads_all);
  int fd = new_file(0);
  EXPECT(flock(fd, LOCK_EX) == 0);
  munmap(let_read(map(fd)), kPage);
  close(fd);
  printf("flock: %d\n", flock(opened(0), LOCK_EX | LOCK_NB));
  fd = new_file(1);
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  EXPECT(fcntl(fd, F_OFD_SETLK, &whole) == 0);
  char* p = map(fd);
  start(sleeps);
  munmap(p, kPage);
  close(fd);
  printf("lock of the open file: %d\n", fcntl(opened(1), F_OFD_SETLK, &whole));
  fd = memfd_create("x", MFD_ALLOW_SEALING);
  EXPECT(ftruncate(fd, kPage) == 0 && pwrite(fd, "x", 1, 0) == 1);
  munmap(let_read(mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), kPage);
  printf("seal: %d\n", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
  fd = new_file(2);
  fchmod(fd, 0700);
  munmap(let_read(map(fd)), kPage);
  close(fd);
  char path[4096];
  snprintf(path, sizeof path, "%s/2", folder);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl(path, path, NULL);
    _exit(errno == ETXTBSY);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child);
  printf("busy: %d\n", status);
}
static void handed_on(void) {
  start(reads_all);
  const int fd = new_file(0);
  for (int i = 0; i < 70000; ++i) munmap(let_read(map(fd)), kPage);
  puts("all read");
}

int main(int count, char** arguments) {
  folder = arguments[2];
  if (strcmp(arguments[1], "many") == 0) many();
  if (strcmp(arguments[1], "closed") == 0) closed();
  if (strcmp(arguments[1], "taken") == 0) taken();
  if (strcmp(arguments[1], "gone") == 0) gone();
  if (strcmp(arguments[1], "handed on") == 0) handed_on();
  if (strcmp(arguments[1], "jumped") == 0) jumped();
  exit(0);
}
