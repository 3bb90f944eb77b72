// System V segments and mappings of /dev/zero that one thread makes are there in all others, in new ones and in children.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 16 };
static char *volatile segment, *volatile zero, *volatile before;
static pthread_barrier_t turn;
static void meet(void) { pthread_barrier_wait(&turn); }

static void* makes(void* unused) {
  const int id = shmget(IPC_PRIVATE, kBytes, 0600 | IPC_CREAT), fd = open("/dev/zero", O_RDWR);
  segment = shmat(id, NULL, 0);
  shmctl(id, IPC_RMID, NULL);
  zero = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  strcpy(segment + 5000, "segment"), strcpy(zero + 5000, "zero");
  meet();
  meet();
  printf("thread: %s, %s, %s\n", segment + 5000, zero + 5000, before);
  printf("detached: %d %d", shmdt(segment), shmdt(segment));
  printf(" %d, unmapped: %d\n", errno, munmap(zero, kBytes));
  errno = 0;
  printf("none: %d", shmat(-1, NULL, 0) == (void*)-1);
  printf(" %d\n", errno);
  return unused;
}
static void* looks(void* unused) { return printf("new: %s, %s\n", segment + 5000, zero + 5000), unused; }

int main(void) {
  pthread_t thread, other;
  setbuf(stdout, NULL);
  pthread_barrier_init(&turn, NULL, 2);
  const int id = shmget(IPC_PRIVATE, kBytes, 0600 | IPC_CREAT);
  before = shmat(id, NULL, 0);
  shmctl(id, IPC_RMID, NULL);
  pthread_create(&thread, NULL, makes, NULL);
  meet();
  printf("main: %s, %s\n", segment + 5000, zero + 5000);
  strcpy(segment + 5000, "again"), strcpy(before, "from before");
  pthread_create(&other, NULL, looks, NULL);
  pthread_join(other, NULL);
  const pid_t child = fork();
  if (child == 0) {
    strcpy(zero + 5000, "child"), strcpy(segment + 5000, "children");
    _exit(0);
  }
  waitpid(child, NULL, 0);
  meet();
  pthread_join(thread, NULL);
  printf("before: %d\n", shmdt(before));
  return 0;
}
