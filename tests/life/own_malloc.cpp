// A program with a malloc, free, calloc and realloc of its own, as one that is linked with another allocator: libc's reallocarray calls its
// realloc, whoever has that.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

alignas(16) char array[1 << 20];
std::size_t used = 0;

}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  const std::size_t bytes = (size + 31) & ~std::size_t{15};
  if (used + bytes > sizeof array) return nullptr;
  char* const p = array + used;
  used += bytes;
  memcpy(p, &size, sizeof size);
  return p + 16;
}
void free(void* p) {
  static constexpr char kWords[] = "free: of others\n";
  if (p && (p < array || p >= array + sizeof array)) _exit(write(2, kWords, sizeof kWords - 1) > 0 ? 3 : 4);
}
void* calloc(std::size_t count, std::size_t size) {
  void* const p = malloc(count * size);
  return p ? memset(p, 0, count * size) : p;
}
void* realloc(void* p, std::size_t size) {
  void* const q = malloc(size);
  std::size_t before = 0;
  if (p) memcpy(&before, static_cast<char*>(p) - 16, sizeof before);
  return q && p ? memcpy(q, p, before < size ? before : size) : q;
}
}

int main() {
  auto* p = static_cast<char*>(reallocarray(nullptr, 10, 10));
  strcpy(p, "kept");
  p = static_cast<char*>(reallocarray(p, 20, 10));
  puts(p);
  free(p);
}
