// Mixed lifetimes with thread churn: most blocks die young, some are kept, some pass to whoever swaps them out.
//
// The crew is thrown away and started anew several times; what it kept in the shared table outlives it. An operation is
// one block taken.
#include "workload.hpp"

namespace {

constexpr unsigned kCrews = 8;
constexpr std::size_t kShared = 1000;

std::atomic<bench::Piece*> shared_table[kShared];

/// Puts a piece where any thread may find it, and gives back what was there.
std::uint64_t swap_in(std::size_t slot, bench::Piece piece) {
  auto* box = static_cast<bench::Piece*>(std::malloc(sizeof(bench::Piece)));
  *box = piece;
  std::uint64_t sum = 0;
  if (bench::Piece* old = shared_table[slot].exchange(box, std::memory_order_acq_rel)) {
    sum = old->give_back();
    std::free(old);
  }
  return sum;
}

std::uint64_t live(std::uint64_t ops, bench::Random random) {
  std::vector<bench::Piece> young, kept;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < ops; ++i) {
    // One in a thousand is large, as real heaps have it.
    const std::size_t size = random.below(1000) == 0 ? random.between(4096, 65536) : random.size(8, 1024);
    const bench::Piece piece = bench::Piece::take(size, i);
    const std::uint64_t fate = random.below(100);
    if (fate < 75) {
      young.push_back(piece);
    } else if (fate < 90) {
      kept.push_back(piece);
    } else {
      sum += swap_in(random.below(kShared), piece);
    }
    if (young.size() >= 100) {
      for (bench::Piece& one : young) sum += one.give_back();
      young.clear();
    }
    if (kept.size() > 0 && fate >= 97) {
      bench::Piece& victim = kept[random.below(kept.size())];
      sum += victim.give_back();
      victim = kept.back();
      kept.pop_back();
    }
  }
  for (bench::Piece& one : young) sum += one.give_back();
  for (bench::Piece& one : kept) sum += one.give_back();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options(argc, argv, 8'000'000);
  std::atomic<std::uint64_t> checksum{0};
  for (unsigned crew = 0; crew < kCrews; ++crew)
    bench::on_threads(options.threads, [&](unsigned n) {
      checksum += live(options.ops / kCrews / options.threads, bench::Random(crew * 1000 + n + 1));
    });
  for (auto& slot : shared_table)
    if (bench::Piece* left = slot.exchange(nullptr)) {
      checksum += left->give_back();
      std::free(left);
    }
  return bench::report("lifetimes", options, checksum);
}
