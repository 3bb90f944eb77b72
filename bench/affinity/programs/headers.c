// Preloaded before an allocator: every object gets the room that it has in glibc's heap, where 8 bytes of header come with each and 32 is
// the least. What then differs from glibc is how fast calls are; what differs without this library is the room of the headers as well.
//
// Each entry ends in a jump, so the allocator sees the return address of the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

struct nothrow;

static size_t with_header(size_t n) { return n > SIZE_MAX - 8 ? n : n + 8 < 32 ? 32 : n + 8; }

/// Declares next_NAME, which looks for the next library's SYMBOL when it is first called.
#define NEXT(result, name, symbol, parameters, values)        \
  static result find_##name parameters;                       \
  static result(*next_##name) parameters = find_##name;       \
  static result find_##name parameters {                      \
    next_##name = (result(*) parameters)dlsym(RTLD_NEXT, symbol); \
    return next_##name values;                                \
  }
NEXT(void*, malloc, "malloc", (size_t n), (n))
NEXT(void*, calloc, "calloc", (size_t count, size_t n), (count, n))
NEXT(void*, realloc, "realloc", (void* p, size_t n), (p, n))
NEXT(void*, new, "_Znwm", (size_t n), (n))
NEXT(void*, new_array, "_Znam", (size_t n), (n))
NEXT(void*, new_nothrow, "_ZnwmRKSt9nothrow_t", (size_t n, const struct nothrow* tag), (n, tag))
NEXT(void*, new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t n, const struct nothrow* tag), (n, tag))
NEXT(void, delete, "_ZdlPv", (void* p), (p))
NEXT(void, delete_array, "_ZdaPv", (void* p), (p))

void* malloc(size_t n) { return next_malloc(with_header(n)); }
void* calloc(size_t count, size_t n) {
  size_t bytes;
  return __builtin_mul_overflow(count, n, &bytes) ? next_calloc(count, n) : next_calloc(1, with_header(bytes));
}
void* realloc(void* p, size_t n) { return next_realloc(p, n ? with_header(n) : 0); }
void* _Znwm(size_t n) { return next_new(with_header(n)); }
void* _Znam(size_t n) { return next_new_array(with_header(n)); }
void* _ZnwmRKSt9nothrow_t(size_t n, const struct nothrow* tag) { return next_new_nothrow(with_header(n), tag); }
void* _ZnamRKSt9nothrow_t(size_t n, const struct nothrow* tag) { return next_new_array_nothrow(with_header(n), tag); }
// The size that the program names is not the block's any more.
void _ZdlPvm(void* p, size_t n) { (void)n, next_delete(p); }
void _ZdaPvm(void* p, size_t n) { (void)n, next_delete_array(p); }
