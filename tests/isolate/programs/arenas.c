/* Anonymous memory mapped and unmapped while signals come, whose handlers do the same, leave by a jump, or wait for a thread that does. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPieces = 12, kPage = 4096, kSignals = 1000 };
#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static volatile int stop, ready;
static volatile sig_atomic_t came;
static sigjmp_buf back;
static sem_t asked, done;

static char* map(size_t bytes) {
  char* const p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(p != MAP_FAILED && p[0] == 0);
  p[0] = 1;
  return p;
}
static void map_some(void) {
  char* held[kPieces];
  for (int i = 0; i < kPieces; ++i) held[i] = map((1 + i % 3) * kPage);
  for (int i = 0; i < kPieces; ++i) EXPECT(munmap(held[i], (1 + i % 3) * kPage) == 0);
}
static void maps(int signal) {
  map_some();
  ++came;
}
static void jumps_back(int signal) {
  ++came;
  siglongjmp(back, 1);
}
static void waits(int signal) {
  sem_post(&asked);
  while (sem_wait(&done) != 0) {
  }
  ++came;
}
static void* work(void* unused) {
  sigsetjmp(back, 1);
  ready = 1;
  while (!stop) map_some();
  return unused;
}
static void* serve(void* unused) {
  for (;;) {
    sem_wait(&asked);
    if (stop) return unused;
    map_some();
    sem_post(&done);
  }
}
static void send(pthread_t thread) {
  for (int i = 0; i < kSignals; ++i) {
    const int before = came;
    pthread_kill(thread, SIGUSR1);
    while (came == before) sched_yield();
  }
}

int main(int count, char** arguments) {
  const char* const way = arguments[1];
  pthread_t thread, server;
  sem_init(&asked, 0, 0), sem_init(&done, 0, 0);
  struct sigaction action = {.sa_handler = strcmp(way, "maps") == 0 ? maps : strcmp(way, "jumps") == 0 ? jumps_back : waits};
  sigaction(SIGUSR1, &action, NULL);
  pthread_create(&thread, NULL, work, NULL);
  pthread_create(&server, NULL, serve, NULL);
  while (!ready) sched_yield();
  send(thread);
  stop = 1;
  pthread_join(thread, NULL);
  sem_post(&asked);
  pthread_join(server, NULL);
  puts("done");
}
