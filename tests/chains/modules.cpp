// modules A.so B.so ROUNDS: opens, runs and closes two libraries in turn while a profiler's signal arrives a thousand times a
// second. The loader maps one where the other was.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks = 0;
static void on_tick(int) { ticks = ticks + 1; }

int main(int, char** argv) {
  struct sigaction action {};
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const struct itimerval every = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &every, nullptr);
  long sum = 0;
  void* places[2] = {};
  int shared = 0;
  for (int round = 0; round < atoi(argv[3]); ++round) {
    void* library = dlopen(argv[1 + round % 2], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    auto* run = reinterpret_cast<long (*)(int)>(dlsym(library, "run"));
    sum += run(300);
    places[round % 2] = reinterpret_cast<void*>(run);
    shared += round && places[0] == places[1];
    dlclose(library);
  }
  printf("%ld\n", sum);
  fprintf(stderr, "ticks %d, mapped in the other's place %d times\n", static_cast<int>(ticks), shared);
}
