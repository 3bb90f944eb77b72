// Bursts with idle time between them: a heap of some 10 MB is built, most of it freed, then all is still.
//
// What counts is the memory held while idle (the time-averaged RSS) against the price of taking it again. Wall time is
// mostly sleep here, so CPU time is what to read. An operation is one block taken.
#include <chrono>

#include "workload.hpp"

namespace {

constexpr std::uint64_t kBursts = 8;
constexpr auto kIdle = std::chrono::milliseconds(80);

std::uint64_t work(bench::Share share) {
  std::vector<bench::Piece> heap;
  std::uint64_t sum = 0;
  for (std::uint64_t burst = 0; burst < kBursts; ++burst) {
    for (std::uint64_t i = 0; i < share.ops / kBursts; ++i) {
      const std::size_t size =
          share.random.below(200) == 0 ? share.random.between(4096, 60'000) : share.random.size(16, 1024);
      heap.push_back(bench::Piece::take(size, i));
    }
    // Nine of ten go, in no particular order, and the rest closes up.
    std::size_t kept = 0;
    for (bench::Piece& piece : heap) {
      if (share.random.below(10) == 0) {
        heap[kept++] = piece;
      } else {
        sum += piece.give_back();
      }
    }
    heap.resize(kept);
    std::this_thread::sleep_for(kIdle);
  }
  for (bench::Piece& piece : heap) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "bursts", 1'000'000, work); }
