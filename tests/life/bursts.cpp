// Memory after a burst, while the program sleeps: bursts WHAT LOW HIGH. Takes 64 MiB of blocks of LOW..HIGH bytes, frees
// them all in the order they were taken (all), the newest first (lifo), or 85 in 100 at random (random), then sleeps until
// what is resident beyond what was before lies within 20 % of the pages that still hold a block; prints how long that took.
#include <algorithm>
#include <string>

#include "life.hpp"

namespace {

using life::kMiB;
constexpr std::size_t kBytes = 64 * kMiB, kBlocksMax = kBytes / 16, kPage = 4096;
constexpr std::size_t kSlack = 4 * kMiB;  // bookkeeping, tables of caches, code that ran for the first time
unsigned char* block[kBlocksMax];
std::uint32_t size_of[kBlocksMax];
std::uintptr_t page[2 * kBlocksMax];
std::size_t count = 0;

void take(std::size_t low, std::size_t high) {
  life::Random random(1);
  for (std::size_t bytes = 0; bytes < kBytes && count < kBlocksMax; bytes += size_of[count++]) {
    size_of[count] = static_cast<std::uint32_t>(low + random.below(high - low + 1));
    block[count] = static_cast<unsigned char*>(malloc(size_of[count]));
    EXPECT(block[count]);
    memset(block[count], 0x5b, size_of[count]);
  }
}

void drop(std::size_t i) {
  EXPECT(block[i][0] == 0x5b && block[i][size_of[i] - 1] == 0x5b);
  free(block[i]);
  block[i] = nullptr;
}

void drop(const std::string& what) {
  life::Random random(2);
  if (what == "all")
    for (std::size_t i = 0; i < count; ++i) drop(i);
  else if (what == "lifo")
    for (std::size_t i = count; i-- > 0;) drop(i);
  else
    for (std::size_t i = 0; i < count; ++i)
      if (random.below(100) < 85) drop(i);
}

/// Bytes in pages that a block still lies in; of a block over several pages those between count as well.
std::size_t live_pages() {
  std::size_t n = 0, inner = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!block[i]) continue;
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(block[i]) / kPage;
    const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(block[i]) + size_of[i] - 1) / kPage;
    page[n++] = first;
    if (last != first) page[n++] = last, inner += last - first - 1;
  }
  std::sort(page, page + n);
  return (static_cast<std::size_t>(std::unique(page, page + n) - page) + inner) * kPage;
}

}  // namespace

int main(int arguments, char** argv) {
  EXPECT(arguments == 4);
  for (std::size_t i = 0; i < 2 * kBlocksMax; i += kPage / sizeof *page) page[i] = 1;  // the tables are there before
  for (std::size_t i = 0; i < kBlocksMax; i += kPage / sizeof *block) block[i] = nullptr, size_of[i] = 0;
  memset(block, 0, sizeof block);
  memset(size_of, 0, sizeof size_of);
  free(malloc(100));
  const std::size_t before = life::resident();
  take(strtoul(argv[2], nullptr, 10), strtoul(argv[3], nullptr, 10));
  const std::size_t peak = life::resident() - before;
  drop(argv[1]);
  const std::size_t live = live_pages(), allowed = live + live / 5 + kSlack;
  EXPECT(peak >= kBytes);
  int waited_ms = 0;
  const auto above = [&] { return life::resident() > before ? life::resident() - before : 0; };
  const bool fell = life::wait_for([&] { return above() <= allowed || (waited_ms += 10) < 0; });
  printf("%s %s-%s: peak %zu KiB, %zu in pages with a block, %zu left after %d ms\n", argv[1], argv[2], argv[3], peak >> 10, live >> 10,
         above() >> 10, waited_ms);
  return fell ? 0 : 1;
}
