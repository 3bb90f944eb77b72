// A busy thread above the soft limit, and one on another core that sleeps with full caches: ends when those have been emptied. The busy one
// frees only what takes a system call anyway, and never rests.
#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "life.hpp"

namespace {

std::atomic<bool> is_enough{false}, may_end{false};
char text[1 << 20];
cpu_set_t allowed;

void run_on(unsigned nth) {
  cpu_set_t one;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || nth--) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
  }
}

/// How many cores have blocks in their caches.
unsigned caches() {
  static const auto json = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(dlsym(RTLD_DEFAULT, "mortise_stats_json"));
  EXPECT(json && json(text, sizeof text) < sizeof text);
  unsigned n = 0;
  const char* const end = strchr(strstr(text, "\"caches\""), ']');
  for (const char* at = strstr(text, "\"caches\""); (at = strstr(at, "\"index\"")) && at < end; ++at) ++n;
  return n;
}

void fill() {
  void* block[400];
  run_on(1);
  while (!is_enough) {
    for (void*& p : block) EXPECT(p = malloc(1000));
    for (void* p : block) free(p);
  }
  while (!may_end) is_enough.wait(true);
}

}  // namespace

int main() {
  EXPECT(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  run_on(0);
  void* const much = malloc(8 << 20);
  {
    std::thread filling(fill);
    while (caches() < 2) free(malloc(1000));
    is_enough = true;
    while (caches() > 1)
      for (int i = 0; i < 1000; ++i) free(malloc(300'000));
    may_end = true, is_enough = false, is_enough.notify_all();
    filling.join();
  }
  free(much);
}
