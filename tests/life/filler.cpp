// Takes blocks of LOW..HIGH bytes, writes every byte, and when there are no more says how it went: errno, the bytes that were asked
// for, the request that was refused, what the kernel holds resident of the process beyond what it was before, and what the allocator
// tells. Then frees half, and takes as much again. With a third word, blocks are written when there are no more.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>

#include "life.hpp"

namespace {

constexpr std::size_t kBlocksMax = 8 << 20, kBytesMax = std::size_t{1} << 30;
void* block[kBlocksMax];
std::size_t size_of[kBlocksMax];
char text[1 << 20];

struct Filler {
  std::size_t low, high, count = 0, bytes = 0, refused = 0;
  unsigned seed = 1;
  bool is_late = false;

  int fill() {
    for (;;) {
      seed = seed * 1103515245 + 12345;
      const std::size_t n = low + (seed >> 8) % (high - low + 1);
      errno = 0;
      void* p = count < kBlocksMax && bytes < kBytesMax ? malloc(n) : nullptr;
      if (!p) return refused = n, errno;
      if (!is_late) memset(p, 1, n);
      size_of[count] = n;
      block[count++] = p;
      bytes += n;
    }
  }
  void free_half() {
    for (std::size_t half = count / 2; count > half; bytes -= size_of[count]) free(block[--count]);
  }
};

/// Without the tables of this program, which grow with what it holds.
std::size_t rss(const Filler& filler) {
  return life::resident() - filler.count * (sizeof *block + sizeof *size_of);
}

}  // namespace

int main(int count, char** arguments) {
  Filler filler{strtoul(arguments[1], nullptr, 10), strtoul(arguments[2], nullptr, 10)};
  filler.is_late = count > 3;
  free(malloc(filler.low));
  const std::size_t before = rss(filler);
  const int first = filler.fill();
  if (filler.is_late)
    for (std::size_t i = 0; i < filler.count; ++i) memset(block[i], 1, size_of[i]);
  const std::size_t most = filler.bytes, refused = filler.refused, grown = rss(filler) - before;
  const auto json = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(dlsym(RTLD_DEFAULT, "mortise_stats_json"));
  if (json) json(text, sizeof text);
  filler.free_half();
  const int second = filler.fill();
  char line[128];  // printf would want memory
  const int length = snprintf(line, sizeof line, "errno %d bytes %zu refused %zu rss %zu again_errno %d again_bytes %zu\n", first, most, refused,
                              grown, second, filler.bytes);
  for (char* c = text; *c; ++c)
    if (*c == '\n') *c = ' ';
  return write(1, line, static_cast<std::size_t>(length)) < 0 || write(1, text, strlen(text)) < 0;
}
