// Batches of one size after another, given back in three orders: first in first out, last in first out, every second.
//
// Some of each batch is kept until later batches have come and gone, so lists of free blocks never stay tidy. An
// operation is one block taken and given back.
#include "workload.hpp"

namespace {

constexpr std::size_t kBatch = 1000;

std::uint64_t work(bench::Share share) {
  constexpr std::size_t kSizes[] = {24, 40, 8, 64, 120, 16, 250, 80, 500, 32, 1000, 48, 2000, 96};
  std::vector<bench::Piece> batch(kBatch), kept;
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0, round = 0; done < share.ops; done += kBatch, ++round) {
    const std::size_t size = kSizes[round % std::size(kSizes)];
    for (std::size_t i = 0; i < kBatch; ++i) batch[i] = bench::Piece::take(size + (i & 7), done + i);
    for (std::size_t i = 0; i < kBatch; i += 10) {
      kept.push_back(batch[i]);
      batch[i].block = nullptr;
    }
    switch (round % 3) {
      case 0:
        for (std::size_t i = 0; i < kBatch; ++i) sum += batch[i].give_back();
        break;
      case 1:
        for (std::size_t i = kBatch; i-- > 0;) sum += batch[i].give_back();
        break;
      default:
        for (std::size_t i = 0; i < kBatch; i += 2) sum += batch[i].give_back();
        for (std::size_t i = 1; i < kBatch; i += 2) sum += batch[i].give_back();
    }
    if (round % 40 == 39) {
      for (bench::Piece& piece : kept) sum += piece.give_back();
      kept.clear();
    }
  }
  for (bench::Piece& piece : kept) sum += piece.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "batches", 12'000'000, work); }
