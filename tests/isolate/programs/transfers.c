// A thread hands the kernel memory that main has mapped from files since: the whole of it is read and written.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kBytes = 5 << 20, kPart = 64 << 10, kWays = 15 };
static char *shared[kWays], *private[kWays], *early, *granted;
static int file, ends[2], packets[2];
static pthread_barrier_t mapped;

static char* map(int flags) { return mmap(NULL, kBytes, PROT_READ | PROT_WRITE, flags, file, 0); }

static long give(int way, char* from) {
  struct iovec pieces[2] = {{from, 100}, {from + kBytes / 2, 100}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  const int out = memfd_create("out", 0);
  long done = 0;
  switch (way) {
    case 0: done = write(out, from, kBytes); break;
    case 1: done = pwrite(out, from, kBytes, 10); break;
    case 2: done = writev(out, pieces, 2); break;
    case 3: done = pwritev(out, pieces, 2, 10) + pwritev2(out, pieces, 2, 10, 0); break;
    case 4: done = send(packets[0], from, 1000, 0), recv(packets[1], early, 1000, 0); break;
    case 5: done = sendto(packets[0], from, 1000, 0, NULL, 0), recv(packets[1], early, 1000, 0); break;
    case 6: done = sendmsg(packets[0], &message, 0), recv(packets[1], early, 1000, 0); break;
  }
  close(out);
  return done;
}

static long take(int way, char* to) {
  struct iovec pieces[2] = {{to + 8192, 100}, {to + kBytes / 2, 100}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  static char bytes[1000];
  lseek(file, 0, SEEK_SET);
  switch (way) {
    case 7: return read(file, to, kBytes);
    case 8: return pread(file, to, kBytes - 10, 10);
    case 9: return readv(file, pieces, 2);
    case 10: return preadv(file, pieces, 2, 10);
    case 11: return send(packets[0], bytes, 1000, 0), recv(packets[1], to, 1000, 0);
    case 12: return send(packets[0], bytes, 1000, 0), recvfrom(packets[1], to, 1000, 0, NULL, NULL);
    case 14: return preadv2(file, pieces, 2, 10, 0);
    case 13: return send(packets[0], bytes, 1000, 0), recvmsg(packets[1], &message, 0);
  }
  return 0;
}

static void* nothing(void* unused) { return NULL; }

static void* use(void* unused) {
  pthread_barrier_wait(&mapped);
  for (int way = 0; way < kWays; way++) {
    long of_shared = way < 7 ? give(way, shared[way]) : take(way, shared[way]);
    long of_private = way < 7 ? give(way, private[way]) : take(way, private[way]);
    printf("%d: %ld %ld\n", way, of_shared, of_private);
  }
  printf("rights: %ld\n", take(7, granted));
  memset(early, 'e', 100);
  printf("early: %zd\n", pread(file, early, kBytes, 0));
  return NULL;
}

int main(void) {
  setbuf(stdout, NULL);
  file = memfd_create("file", 0);
  ftruncate(file, kBytes);
  socketpair(AF_UNIX, SOCK_DGRAM, 0, packets);
  early = map(MAP_PRIVATE);
  pthread_barrier_init(&mapped, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  granted = mmap(NULL, kBytes, PROT_READ, MAP_SHARED, file, 0);
  pthread_create(&thread, NULL, use, NULL);
  mprotect(granted, kBytes, PROT_READ | PROT_WRITE);
  for (int way = 0; way < kWays; way++) shared[way] = map(MAP_SHARED), private[way] = map(MAP_PRIVATE);
  pthread_barrier_wait(&mapped);
  pthread_join(thread, NULL);
  FILE* stream = tmpfile();
  char* late = map(MAP_SHARED);
  memset(late, 'l', kBytes);
  printf("stream: %zu", fwrite(late, 1, kBytes, stream));
  rewind(stream);
  printf(" %zu\n", fread(map(MAP_PRIVATE), 1, kBytes, stream));
}
