// A server's churn, in the manner of larson: each worker keeps a table of blocks and replaces one at random.
//
// Every so often the worker ends and a new thread inherits its table, as a server hands connections on; from then on
// the blocks that the dead thread took are given back by another one. An operation is one block replaced.
#include "workload.hpp"

namespace {

constexpr std::size_t kSlots = 4000;
constexpr std::uint64_t kGenerations = 10;

std::uint64_t work(bench::Share share) {
  std::vector<bench::Piece> table(kSlots);
  std::uint64_t sum = 0;
  for (std::uint64_t generation = 0; generation < kGenerations; ++generation)
    std::thread([&] {
      for (std::uint64_t i = 0; i < share.ops / kGenerations; ++i) {
        bench::Piece& piece = table[share.random.below(kSlots)];
        sum += piece.give_back();
        piece = bench::Piece::take(share.random.size(10, 1000), i);
      }
    }).join();
  for (bench::Piece& piece : table) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "churn", 10'000'000, work); }
