// The plain micro-mix: a small working set of blocks up to 1 KB, replaced at random, nothing else.
//
// It shows the hit path and little more; that is its use. An operation is one block replaced.
#include "workload.hpp"

namespace {

std::uint64_t work(bench::Share share) {
  constexpr std::size_t kSlots = 256;
  bench::Piece slots[kSlots];
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < share.ops; ++i) {
    const std::uint64_t dice = share.random.next();
    bench::Piece& piece = slots[dice % kSlots];
    sum += piece.give_back();
    // Three of four are below 128 bytes.
    const std::size_t size = (dice >> 8) % 4 != 0 ? 8 + (dice >> 16) % 120 : 8 + (dice >> 16) % 1016;
    piece = bench::Piece::take(size, i);
  }
  for (bench::Piece& piece : slots) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "mix", 24'000'000, work); }
