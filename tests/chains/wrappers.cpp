// Functions that allocate, named for what they are: w_... are wrappers of malloc by the strict rule, n_... are not. Each is called
// from two places, often enough to be judged.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE extern "C" [[gnu::noinline]]

namespace {
void* volatile kept;
unsigned long volatile bytes_in_use;
constexpr size_t kSize = 40;

struct Node {
  Node* next;
  long value[3];
};
}  // namespace

NOINLINE void* w_checked(size_t n) {
  void* p = malloc(n);
  if (!p) {
    fprintf(stderr, "no memory\n");
    exit(1);
  }
  return p;
}
NOINLINE void* w_of_wrapper(size_t n) {
  void* p = w_checked(n + 1);
  bytes_in_use += n;
  return p;
}
NOINLINE void* w_cleared(size_t n) {
  void* p = malloc(n);
  if (!p) abort();
  return memset(p, 0, n);
}
NOINLINE void* w_retries(size_t n) {
  void* p;
  while (!(p = malloc(n))) puts("again");
  bytes_in_use = bytes_in_use + n;
  return p;
}
NOINLINE void* w_header(size_t n) {
  auto* p = static_cast<size_t*>(malloc(n + 16));
  if (!p) abort();
  p[0] = n;
  return p + 2;
}
NOINLINE void* w_by_alloca(size_t n) {  // a frame of variable size: left by the frame pointer
  auto* room = static_cast<char*>(__builtin_alloca(n % 64 + 1));
  room[0] = 1;
  kept = room;
  void* p = malloc(n);
  bytes_in_use = static_cast<unsigned long>(static_cast<char*>(kept)[0]);
  return p;
}
NOINLINE void* n_initialises(size_t n) {
  auto* p = static_cast<Node*>(malloc(n));
  if (!p) abort();
  p->value[0] = 1;
  return p;
}
NOINLINE void* n_keeps(size_t n) {
  void* p = malloc(n);
  kept = p;
  return p;
}
NOINLINE void* n_passes(size_t n) {
  void* p = malloc(n);
  if (!p) abort();
  return strcpy(static_cast<char*>(p), "x");
}
NOINLINE long n_uses(size_t n) {
  auto* p = static_cast<long*>(calloc(1, n));
  const long r = p[0] + 1;
  free(p);
  return r;
}

static void* start_of(void* p, bool has_header) { return has_header ? static_cast<char*>(p) - 16 : p; }

template <class F> [[gnu::noinline]] void twice(F f, bool has_header = false) {
  for (int i = 0; i < 200; ++i) {
    void* a = f(kSize);
    static_cast<char*>(a)[20] = 1;
    void* b = f(kSize);
    static_cast<char*>(b)[21] = 1;
    free(start_of(a, has_header));
    free(start_of(b, has_header));
  }
}

int main() {
  twice(w_checked);
  twice(w_of_wrapper);
  twice(w_cleared);
  twice(w_retries);
  twice(w_header, true);
  twice(w_by_alloca);
  twice(n_initialises);
  twice(n_keeps);
  twice(n_passes);
  long sum = 0;
  for (int i = 0; i < 400; ++i) sum += n_uses(kSize);
  printf("%ld\n", sum);
}
