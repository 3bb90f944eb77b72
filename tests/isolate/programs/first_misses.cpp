// Threads that come by an allocator for the first time, all at once, while it maps memory in every address space.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kThreads = 8, kBlocks = 64;
pthread_barrier_t all;

void* allocate(void* of) {
  const auto own = static_cast<int>(reinterpret_cast<long>(of));
  char* block[kBlocks];
  pthread_barrier_wait(&all);
  for (int i = 0; i < kBlocks; ++i) {
    block[i] = static_cast<char*>(malloc(1000u << i % 8));
    memset(block[i], own, 1000);
  }
  long wrong = 0;
  for (char* b : block) {
    for (int i = 0; i < 1000; ++i) wrong += b[i] != own;
    free(b);
  }
  return reinterpret_cast<void*>(wrong);
}

}  // namespace

int main() {
  pthread_barrier_init(&all, nullptr, kThreads);
  long wrong = 0;
  for (int round = 0; round < 20; ++round) {
    pthread_t threads[kThreads];
    for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], nullptr, allocate, reinterpret_cast<void*>(i));
    for (pthread_t t : threads) {
      void* seen = nullptr;
      pthread_join(t, &seen);
      wrong += reinterpret_cast<long>(seen);
    }
  }
  printf("wrong: %ld\n", wrong);
}
