// Drifting sizes: what the program asks for moves from small to large and back, while some of every phase stays.
//
// Memory that one phase freed helps the next only if it can change its size class; an allocator that cannot let go of
// pages keeps them all. An operation is one block replaced.
#include "workload.hpp"

namespace {

constexpr std::uint64_t kPhases = 12;

std::uint64_t work(bench::Share share) {
  constexpr std::size_t kBytesLive = 12 << 20;
  std::vector<bench::Piece> live, survivors;
  std::uint64_t sum = 0;
  for (std::uint64_t phase = 0; phase < kPhases; ++phase) {
    // 32 B, 64 B, ... 2 KB, and down again.
    const std::size_t middle = std::size_t{32} << (phase < kPhases / 2 ? phase : kPhases - 1 - phase);
    const std::size_t want = kBytesLive / share.threads / (2 * middle);
    for (std::uint64_t i = 0; i < share.ops / kPhases; ++i) {
      const std::size_t size = share.random.between(middle / 2, middle * 3 / 2);
      const bench::Piece piece = bench::Piece::take(size, i);
      if (live.size() < want) {
        live.push_back(piece);
        continue;
      }
      bench::Piece& victim = live[share.random.below(live.size())];
      sum += victim.give_back();
      victim = piece;
    }
    // The phase ends: one in twenty survives to the end of the program, the others go in the order of the table.
    for (bench::Piece& piece : live) {
      if (share.random.below(20) == 0) {
        survivors.push_back(piece);
      } else {
        sum += piece.give_back();
      }
    }
    live.clear();
  }
  for (bench::Piece& piece : survivors) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "drift", 6'000'000, work); }
