// Memory that the program made constant, or forbade, is so in every thread: for the kernel (EFAULT) and for a handler of the program.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 1 << 16, kPage = 4096, kPlaces = 7 };
static char data[kBytes] __attribute__((aligned(4096)));
static char* places[kPlaces];
static char *forbidden, *reserved;
static int ends[2];
static pthread_barrier_t turn;
static void meet(void) { pthread_barrier_wait(&turn); }

static char* map(int rights) { return mmap(NULL, kBytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static char* map_and_make(int rights) {
  char* const p = map(PROT_READ | PROT_WRITE);
  memset(p, 7, kBytes);
  mprotect(p, kBytes, rights);
  return p;
}
static int read_into(char* to) {
  char dropped;
  write(ends[1], "x", 1);
  if (read(ends[0], to, 1) == 1) return 1;
  const int error = errno;
  read(ends[0], &dropped, 1);
  return -error;
}
static void look(const char* who) {
  printf("%s:", who);
  for (int i = 0; i < kPlaces; ++i) printf(" %d", read_into(places[i] + kPage));
  printf("\n");
}
static char* moved(void) {
  char* const p = map_and_make(PROT_READ);
  return mremap(p, kBytes, 64 * kBytes, MREMAP_MAYMOVE);
}

static __thread sigjmp_buf back;
static __thread int opens;
static volatile int opened;
static void on_fault(int n, siginfo_t* info, void* context) {
  if (!opens) siglongjmp(back, 1);
  mprotect((char*)((unsigned long)info->si_addr & -kPage), kPage, PROT_READ | PROT_WRITE);
  __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
}
static int may_write(volatile char* p) {
  if (sigsetjmp(back, 1)) return 0;
  *p = 1;
  return 1;
}
static int may_read(volatile char* p) {
  if (sigsetjmp(back, 1)) return 0;
  return *p, 1;
}
static void touch(const char* who, char* p) {
  printf("%s: write %d", who, may_write(p + kPage));
  printf(" read %d\n", may_read(p + kPage));
}

static void* work(void* unused) {
  look("thread, from before");
  places[3] = map_and_make(PROT_READ);
  places[4] = map(PROT_READ);
  places[5] = moved();
  mprotect(data, kBytes, PROT_READ);
  forbidden = map_and_make(PROT_NONE);
  look("thread, its own");
  meet();  // main looks
  meet();
  for (int i = 0; i < kPlaces; ++i) mprotect(places[i], kBytes, PROT_READ | PROT_WRITE);
  meet();  // and again
  meet();
  meet();  // main handles faults now
  touch("thread, forbidden before", forbidden);
  meet();
  meet();
  touch("thread, forbidden since", places[3]);
  touch("thread, reserved", reserved);
  opens = 1;
  printf("thread, by a handler: %d %d\n", may_write(reserved), may_write(reserved + kPage));
  meet();
  return unused;
}
static void* late(void* p) {
  touch("a new thread", p);
  return NULL;
}

int main(void) {
  pthread_t thread;
  setbuf(stdout, NULL);
  pipe(ends);
  pthread_barrier_init(&turn, NULL, 2);
  places[0] = map_and_make(PROT_READ);
  places[1] = map(PROT_READ);
  places[2] = map(PROT_NONE);
  places[3] = places[4] = places[5] = places[0];
  places[6] = data;
  pthread_create(&thread, NULL, work, NULL);
  meet();
  look("main");
  printf("kept: %d %d %d\n", places[0][kPage], places[3][kPage], places[5][kPage]);
  meet();
  meet();
  look("main, given");
  meet();
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  touch("main, forbidden before", forbidden);
  meet();
  meet();
  mprotect(places[3], kBytes, PROT_NONE);
  reserved = map(PROT_NONE);
  meet();
  meet();
  printf("main, opened by the thread: %d %d %d\n", reserved[0], reserved[kPage], opened);
  touch("main, not opened", reserved + kPage);
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, late, reserved + kPage);
  pthread_join(thread, NULL);
  return 0;
}
