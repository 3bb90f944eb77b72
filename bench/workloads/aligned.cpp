// Aligned requests among plain ones: cache lines, vectors and pages, through all three ways of asking.
//
// Every address is checked. An operation is one block replaced.
#include <cstddef>

#include "workload.hpp"

namespace {

void* take(std::uint64_t way, std::size_t alignment, std::size_t size) {
  void* block = nullptr;
  switch (way) {
    case 0:
      return posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
    case 1:
      return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    default:
      return std::malloc(size);
  }
}

std::uint64_t work(bench::Share share) {
  constexpr std::size_t kSlots = 1000;
  std::vector<bench::Piece> slots(kSlots);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < share.ops; ++i) {
    bench::Piece& piece = slots[share.random.below(kSlots)];
    sum += piece.give_back();
    const std::uint64_t way = share.random.below(3);
    const std::size_t alignment = way == 2 ? alignof(std::max_align_t) : std::size_t{16} << share.random.size(1, 8);
    const std::size_t size = share.random.size(16, 4096);
    piece = {take(way, alignment, size), static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(i)};
    if (reinterpret_cast<std::uintptr_t>(piece.block) % alignment != 0) bench::fail("a block is not aligned as asked");
    bench::fill(piece.block, size, piece.tag);
  }
  for (bench::Piece& piece : slots) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "aligned", 6'000'000, work); }
