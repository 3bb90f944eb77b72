// Large blocks of 1 to 32 MB: a few live at a time, one is replaced at each step, every page of it is written.
//
// This is what image and matrix programs do. The kernel's work dominates: who gives pages back at once pays for them
// again at the next step. An operation is one block replaced.
#include "workload.hpp"

namespace {

constexpr std::size_t kLive = 6, kPage = 4096, kMegabyte = 1 << 20;

struct Image {
  std::uint64_t* at = nullptr;
  std::size_t bytes = 0;

  void take(std::size_t size, std::uint64_t tag) {
    at = static_cast<std::uint64_t*>(std::malloc(size));
    if (at == nullptr) bench::fail("no memory");
    bytes = size;
    for (std::size_t i = 0; i < bytes; i += kPage) at[i / sizeof *at] = tag + i;
  }

  std::uint64_t give_back() {
    if (at == nullptr) return 0;
    const std::uint64_t tag = at[0];
    for (std::size_t i = 0; i < bytes; i += kPage)
      if (at[i / sizeof *at] != tag + i) bench::fail("a page lost what was written to it");
    std::free(at);
    at = nullptr;
    return bytes;
  }
};

std::uint64_t work(bench::Share share) {
  Image images[kLive];
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < share.ops; ++i) {
    Image& image = images[share.random.below(kLive)];
    sum += image.give_back();
    image.take(share.random.size(kMegabyte, 32 * kMegabyte) & ~std::size_t{63}, i);
  }
  for (Image& image : images) sum += image.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "large", 1500, work); }
