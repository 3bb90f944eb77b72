// Plants leaks of known sizes at known places, among much that is freed again; with an argument, then waits for a line.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

namespace {

void* held[40'000];
int count = 0;

[[gnu::noinline]] void* wrapped(std::size_t n) { return memset(malloc(n), 1, n); }

}  // namespace

extern "C" {
[[gnu::noinline]] void leak_small() {
  for (int i = 0; i < 30'000; ++i) held[count++] = wrapped(200);
}
[[gnu::noinline]] void leak_objects() {
  for (int i = 0; i < 4'000; ++i) held[count++] = ::operator new(2'000);
}
[[gnu::noinline]] void leak_large() {
  for (int i = 0; i < 8; ++i) held[count++] = wrapped(2'000'000);
}
[[gnu::noinline]] void leak_by_growing() {
  for (std::size_t n = 1'000'000; n <= 6'000'000; n += 1'000'000) {
    held[count] = realloc(held[count], n);
    memset(held[count], 1, n);
  }
  ++count;
}
[[gnu::noinline]] void* leak_in_thread(void*) {
  for (int i = 0; i < 3'000; ++i) held[count++] = wrapped(3'000);
  return nullptr;
}
[[gnu::noinline]] void churn() {
  void* some[64] = {};
  for (int i = 0; i < 400'000; ++i) {
    free(some[i % 64]);
    some[i % 64] = wrapped(static_cast<std::size_t>(16 + i * 37 % 3'000));
  }
  for (void* p : some) free(p);
}
}

int main(int arguments, char**) {
  leak_small();
  churn();
  leak_objects();
  leak_large();
  leak_by_growing();
  pthread_t thread;
  pthread_create(&thread, nullptr, leak_in_thread, nullptr);
  pthread_join(thread, nullptr);
  char line[8];
  return write(1, "ready\n", 6) < 0 || (arguments > 1 && read(0, line, sizeof line) < 0);
}
