// workers.h: what every program here needs: N workers over a range, and inputs made from a seed.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The next number of a small generator (xorshift); same seed, same input, on every machine.
static inline uint64_t next_random(uint64_t* state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}

/// The CPU, of those this program may use, that worker `number` runs on. Workers are pinned: where the system packs what
/// is short on few CPUs, threads that never run at the same time would be compared.
static inline cpu_set_t place_of(int number) {
  cpu_set_t allowed, one;
  sched_getaffinity(0, sizeof allowed, &allowed);
  CPU_ZERO(&one);
  int left = number % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &one);
  return one;
}

/// Creates worker `number` on its CPU; ends the program if that cannot be done.
static inline void create_worker(pthread_t* out, int number, void* (*work)(void*), void* argument) {
  const cpu_set_t place = place_of(number);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof place, &place);
  if (pthread_create(out, &attributes, work, argument) != 0) {
    fprintf(stderr, "cannot create thread %d\n", number);
    exit(1);
  }
  pthread_attr_destroy(&attributes);
}

/// Runs `work` in `count` threads, each with its element of `jobs`, and waits for all.
static inline void run_workers(int count, void* (*work)(void*), void* jobs, size_t job_bytes) {
  pthread_t* threads = malloc((size_t)count * sizeof *threads);
  for (int i = 0; i < count; ++i) create_worker(&threads[i], i, work, (char*)jobs + (size_t)i * job_bytes);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  free(threads);
}

/// Thread count and size from the command line: PROGRAM THREADS [SIZE].
static inline int thread_count(int count, char** arguments) { return count > 1 ? atoi(arguments[1]) : 2; }
static inline long size_or(int count, char** arguments, long otherwise) { return count > 2 ? atol(arguments[2]) : otherwise; }
