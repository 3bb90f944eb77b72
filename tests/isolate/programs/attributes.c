// What a thread is made with: the program's defaults, processors and scheduling, and what the kernel does not grant.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static int runs;

static void show(const char* of) {
  pthread_attr_t attributes;
  size_t guard, stack;
  cpu_set_t cpus, now;
  sigset_t mask;
  int policy, inherits, state;
  struct sched_param parameters;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getinheritsched(&attributes, &inherits);
  pthread_attr_getdetachstate(&attributes, &state);
  pthread_attr_getaffinity_np(&attributes, sizeof cpus, &cpus);
  pthread_getaffinity_np(pthread_self(), sizeof now, &now);
  pthread_getschedparam(pthread_self(), &policy, &parameters);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  pthread_attr_destroy(&attributes);
  printf("%s: guard %zu, stack %zu, same cpus %d, one cpu %d, policy %d, explicit %d, detached %d, SIGUSR1 %d, SIGUSR2 %d\n", of, guard,
         stack >> 16 << 16, CPU_EQUAL(&cpus, &now), CPU_COUNT(&now) == 1, policy, inherits == PTHREAD_EXPLICIT_SCHED,
         state == PTHREAD_CREATE_DETACHED, sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2));
}

static void* look(void* of) { return show(of), NULL; }
static int look_c11(void* of) { return show(of), 0; }
static void* counts(void* unused) { return ++runs, unused; }

static void make(const char* of, const pthread_attr_t* attributes) {
  pthread_t thread;
  const int error = pthread_create(&thread, attributes, look, (void*)of);
  if (error) printf("%s: %s\n", of, strerror(error));
  else pthread_join(thread, NULL);
}

static void set_defaults(size_t guard, size_t stack, int masked) {
  pthread_attr_t attributes;
  sigset_t mask;
  sigemptyset(&mask), sigaddset(&mask, masked);
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, guard);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_attr_setsigmask_np(&attributes, &mask);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

static void with_stack(const char* what, size_t stack, size_t guard) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack), pthread_attr_setguardsize(&attributes, guard);
  printf("%s: %s\n", what, strerror(pthread_create(&thread, &attributes, look, "?")));
  pthread_attr_destroy(&attributes);
}

/// More of them than there may be threads: each leaves room for the next.
static void refused(const char* what, pthread_attr_t* attributes) {
  pthread_t thread;
  int first = pthread_create(&thread, attributes, counts, NULL), others = 0;
  for (int i = 0; i < 1200; ++i) {
    pthread_attr_setdetachstate(attributes, i % 2 ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    others += pthread_create(&thread, attributes, counts, NULL) != first;
  }
  printf("%s: %s, other answers %d, runs %d\n", what, strerror(first), others, runs);
  pthread_attr_destroy(attributes);
}

int main(void) {
  pthread_attr_t attributes;
  cpu_set_t cpus, one, any;
  thrd_t c11;
  make("first", NULL);
  set_defaults(16384, 1 << 20, SIGUSR1);
  make("by default", NULL);
  thrd_create(&c11, look_c11, "of C11");
  thrd_join(c11, NULL);
  pthread_attr_init(&attributes);
  make("attributes", &attributes);

  sched_getaffinity(0, sizeof cpus, &cpus);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &cpus)) CPU_SET(i, &one);
  pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
  make("pinned", &attributes);
  sched_setaffinity(0, sizeof one, &one);
  memset(&any, 0xff, sizeof any);
  pthread_attr_setaffinity_np(&attributes, sizeof any, &any);
  make("any processor", &attributes);
  sched_setaffinity(0, sizeof cpus, &cpus);
  cpu_set_t many[2] = {one};
  CPU_SET(0, &many[1]);  // another that no machine with fewer has
  pthread_attr_setaffinity_np(&attributes, sizeof many, many);
  make("a large set", &attributes);
  CPU_ZERO(&one);
  CPU_SET(CPU_SETSIZE - 1, &one);
  pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
  refused("no such cpu", &attributes);

  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  make("explicit", &attributes);
  struct sched_param parameters = {1};
  pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
  pthread_attr_setschedparam(&attributes, &parameters);
  make("real-time", &attributes);  // or not permitted
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  refused("no such priority", &attributes);
  with_stack("no such stack", SIZE_MAX, 4096);
  with_stack("no such guard", 1 << 20, SIZE_MAX - 4095);
  with_stack("no room for the stack", SIZE_MAX - 8191, 4096);
  with_stack("more than the machine has", 1ul << 45, 4096);
  make("after all", NULL);
}
