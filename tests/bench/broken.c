// An allocator that gives every hundredth block twice: what a workload must not let pass. Nothing is ever taken back.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { kBytes = 1 << 30 };
static char arena[kBytes];
static atomic_size_t used, given;
static _Atomic(void*) last;

static void* take(size_t n, size_t align) {
  const size_t room = (n + align + sizeof(size_t) + 31) / 16 * 16, at = atomic_fetch_add(&used, room);
  if (at + room > kBytes) return NULL;
  char* p = arena + at + sizeof(size_t);
  p += -(size_t)p & (align - 1);
  memcpy(p - sizeof n, &n, sizeof n);
  return p;
}
void* malloc(size_t n) {
  if (n < 16) n = 16;
  void* p = take(n, 16);
  void* before = atomic_exchange(&last, p);
  size_t room = 0;
  if (before) memcpy(&room, (char*)before - sizeof room, sizeof room);
  return atomic_fetch_add(&given, 1) % 100 == 99 && room >= n ? before : p;
}
void free(void* p) { (void)p; }
void* calloc(size_t a, size_t b) { return take(a * b, 16); }
void* aligned_alloc(size_t align, size_t n) { return take(n, align < 16 ? 16 : align); }
void* memalign(size_t align, size_t n) { return take(n, align < 16 ? 16 : align); }
int posix_memalign(void** out, size_t align, size_t n) {
  *out = take(n, align < 16 ? 16 : align);
  return *out ? 0 : ENOMEM;
}
void* realloc(void* p, size_t n) {
  void* q = malloc(n);
  size_t old = 0;
  if (p) memcpy(&old, (char*)p - sizeof old, sizeof old);
  if (p && q && q != p) memcpy(q, p, old < n ? old : n);
  return q;
}
