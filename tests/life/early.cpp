// A library that is early: its constructor runs before others', its malloc family stands in front of ours and looks up
// ours through dlsym while malloc is being called, and its fork handlers, registered before main, allocate.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

unsigned calls = 0;
template <class F> F* next(const char* name) {
  dlerror();
  dlsym(RTLD_NEXT, "there_is_no_such_function");  // the error text is allocated: calloc or malloc from within dlsym
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

void allocate_much() {
  for (unsigned long n = 1; n < 300'000; n += n / 2 + 1) {
    void* p = malloc(n);
    memset(p, 1, n);
    free(realloc(p, n * 2));
  }
}

[[gnu::constructor(101)]] void begin() {
  allocate_much();
  pthread_atfork(allocate_much, allocate_much, allocate_much);
}
[[gnu::destructor(101)]] void end() {
  allocate_much();
  fprintf(stderr, "early: calloc called %u times\n", calls);
}

}  // namespace

extern "C" void* calloc(unsigned long n, unsigned long size) {
  static thread_local int depth = 0;
  static void* (*real)(unsigned long, unsigned long) = nullptr;
  if (!real && depth == 0) {
    ++depth;
    real = next<void*(unsigned long, unsigned long)>("calloc");
    --depth;
  }
  ++calls;
  return real ? real(n, size) : memset(malloc(n * size), 0, n * size);
}
