// workers.h: what every program here needs: N workers over a range, and inputs made from a seed.
#pragma once
#include <pthread.h>
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

/// Runs `work` in `count` threads, each with its element of `jobs`, and waits for all.
static inline void run_workers(int count, void* (*work)(void*), void* jobs, size_t job_bytes) {
  pthread_t* threads = malloc((size_t)count * sizeof *threads);
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, work, (char*)jobs + (size_t)i * job_bytes) != 0) {
      fprintf(stderr, "cannot create thread %d\n", i);
      exit(1);
    }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  free(threads);
}

/// Thread count and size from the command line: PROGRAM THREADS [SIZE].
static inline int thread_count(int count, char** arguments) { return count > 1 ? atoi(arguments[1]) : 2; }
static inline long size_or(int count, char** arguments, long otherwise) { return count > 2 ? atol(arguments[2]) : otherwise; }
