// Takes blocks of LOW..HIGH bytes, writes every byte, and when there are no more says how it went: errno and what the
// kernel holds resident of the heap, as its allocator tells it. Then frees half, and takes as much again.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>

namespace {

constexpr std::size_t kBlocksMax = 8 << 20, kBytesMax = std::size_t{1} << 30;
void* block[kBlocksMax];
std::size_t size_of[kBlocksMax];
char text[1 << 20];

struct Filler {
  std::size_t low, high, count = 0, bytes = 0;
  unsigned seed = 1;

  int fill() {
    for (;;) {
      seed = seed * 1103515245 + 12345;
      const std::size_t n = low + (seed >> 8) % (high - low + 1);
      errno = 0;
      void* p = count < kBlocksMax && bytes < kBytesMax ? malloc(n) : nullptr;
      if (!p) return errno;
      memset(p, 1, n);
      size_of[count] = n;
      block[count++] = p;
      bytes += n;
    }
  }
  void free_half() {
    for (std::size_t half = count / 2; count > half; bytes -= size_of[count]) free(block[--count]);
  }
};

}  // namespace

int main(int, char** arguments) {
  Filler filler{strtoul(arguments[1], nullptr, 10), strtoul(arguments[2], nullptr, 10)};
  const int first = filler.fill();
  const std::size_t most = filler.bytes;
  const auto json = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(dlsym(RTLD_DEFAULT, "mortise_stats_json"));
  if (json) json(text, sizeof text);
  filler.free_half();
  const int second = filler.fill();
  char line[128];  // printf would want memory
  const int length = snprintf(line, sizeof line, "errno %d bytes %zu errno %d bytes %zu\n", first, most, second, filler.bytes);
  for (char* c = text; *c; ++c)
    if (*c == '\n') *c = ' ';
  return write(1, line, static_cast<std::size_t>(length)) < 0 || write(1, text, strlen(text)) < 0;
}
