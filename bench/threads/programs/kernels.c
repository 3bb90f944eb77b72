// kernels: one operation on the address space in a loop, by N threads or by N processes, for a fixed time.
//   PROGRAM threads|processes OPERATION N SECONDS     prints operations per second
// Operations: map (mmap and munmap of 64 KB, untouched), touch (the same, every page written), protect (mprotect of 64 KB
// off and on), drop (write one page of 64 KB, madvise(DONTNEED)), null (a system call that does nothing), pass (take turns
// on one cache line). turns-OPERATION: they take turns at it, so that each finds what it needs in another core's cache but
// never waits for a lock.
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workers.h"

enum { kBytes = 64 << 10, kThreadsMax = 64 };
struct control {
  volatile int ready, go, stop;
  _Alignas(128) volatile long turn;
  struct {
    _Alignas(128) long done;
  } of[kThreadsMax];
};
static struct control* control;
static const char* operation;
static int total;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void touch(char* p) {
  for (int at = 0; at < kBytes; at += 4096) ((volatile char*)p)[at] = 1;
}

static void operate(char kind, char* own) {
  if (kind == 'm' || kind == 't') {
    char* p = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kind == 't') touch(p);
    munmap(p, kBytes);
  } else if (kind == 'r') {
    mprotect(own, kBytes, PROT_READ);
    mprotect(own, kBytes, PROT_READ | PROT_WRITE);
  } else if (kind == 'd') {
    *(volatile char*)own = 1;
    madvise(own, kBytes, MADV_DONTNEED);
  } else if (kind == 'n') {
    syscall(SYS_getppid);
  }
}

static void run(int id) {
  char* own = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  touch(own);
  __atomic_fetch_add(&control->ready, 1, __ATOMIC_SEQ_CST);
  while (!control->go) usleep(100);
  long done = 0;
  const int in_turn = strncmp(operation, "turns-", 6) == 0;
  const char* what = in_turn ? operation + 6 : operation;
  const int passes = in_turn || strcmp(what, "pass") == 0;
  const char kind = strcmp(what, "protect") == 0 ? 'r' : what[0];
  for (; !control->stop; ++done) {
    if (passes)
      while (control->turn % total != id && !control->stop) {
      }
    operate(kind, own);
    if (passes) ++control->turn;
  }
  control->of[id].done = done;
}

static void* thread(void* id) {
  run((int)(long)id);
  return NULL;
}

int main(int count, char** arguments) {
  if (count < 5) return 2;
  operation = arguments[2];
  total = atoi(arguments[3]);
  control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_t threads[kThreadsMax];
  for (long i = 0; i < total; ++i) {
    if (arguments[1][0] == 't') {
      create_worker(&threads[i], (int)i, thread, (void*)i);
    } else if (fork() == 0) {
      const cpu_set_t place = place_of((int)i);
      sched_setaffinity(0, sizeof place, &place);
      run((int)i);
      _exit(0);
    }
  }
  while (control->ready < total) usleep(100);
  const double start = now();
  control->go = 1;
  usleep((useconds_t)(atof(arguments[4]) * 1e6));
  control->stop = 1;
  for (int i = 0; i < total; ++i) {
    if (arguments[1][0] == 't') pthread_join(threads[i], NULL);
    else wait(NULL);
  }
  const double seconds = now() - start;
  long sum = 0;
  for (int i = 0; i < total; ++i) sum += control->of[i].done;
  printf("%.0f\n", (double)sum / seconds);
  return 0;
}
