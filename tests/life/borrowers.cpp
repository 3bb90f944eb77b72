// Threads that free before there is memory to keep anything for them: so many that they borrow what they need for that call.
// When memory has come back each has caches like any other thread; statistics at the end tell how many have some.
#include <pthread.h>
#include <sys/resource.h>

#include "life.hpp"

namespace {

constexpr std::size_t kThreads = 300;  // more than what is left of the last piece of bookkeeping serves
pthread_barrier_t all;
void* one_each[kThreads];

void* live(void* own) {
  pthread_barrier_wait(&all);  // a thread's start takes memory
  pthread_barrier_wait(&all);
  free(*static_cast<void**>(own));
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&all);
  void* blocks[50];
  for (int round = 0; round < 10; ++round) {
    for (void*& p : blocks) EXPECT(p = malloc(2000));  // larger than what pools take
    for (void* p : blocks) free(p);
  }
  pthread_barrier_wait(&all);
  for (;;) pause();
}

}  // namespace

int main() {
  EXPECT(pthread_barrier_init(&all, nullptr, kThreads + 1) == 0);
  pthread_attr_t small;
  EXPECT(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 << 10) == 0);
  for (void*& own : one_each) {
    pthread_t thread;
    EXPECT(own = malloc(500));
    EXPECT(pthread_create(&thread, &small, live, &own) == 0);
  }
  pthread_barrier_wait(&all);
  rlimit limit{};
  EXPECT(getrlimit(RLIMIT_AS, &limit) == 0);
  const rlimit none{.rlim_cur = 1, .rlim_max = limit.rlim_max};
  EXPECT(setrlimit(RLIMIT_AS, &none) == 0);
  struct Link {
    Link* next;
  };
  Link* first = nullptr;
  for (std::size_t size = life::kMiB; size >= sizeof(Link); size /= 2)
    while (void* const p = malloc(size)) {
      static_cast<Link*>(p)->next = first;
      first = static_cast<Link*>(p);
    }
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&all);
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  while (first) {
    Link* const next = first->next;
    free(first);
    first = next;
  }
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&all);
  exit(0);
}
