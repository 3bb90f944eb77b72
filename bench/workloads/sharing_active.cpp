// Active false sharing: threads take small blocks at the same time and write to them long and often.
//
// An allocator that carves one cache line for two threads makes the line travel between cores at every write. An
// operation is one write.
#include "workload.hpp"

namespace {

constexpr std::uint64_t kWrites = 400;

std::uint64_t work(bench::Share share) {
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < share.ops; done += kWrites) {
    auto* counter = static_cast<volatile std::uint64_t*>(std::malloc(sizeof(std::uint64_t)));
    if (counter == nullptr) bench::fail("no memory");
    *counter = 0;
    for (std::uint64_t i = 0; i < kWrites; ++i) *counter = *counter + 1;
    if (*counter != kWrites) bench::fail("a counter is shared");
    sum += *counter;
    std::free(const_cast<std::uint64_t*>(counter));
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "sharing_active", 1'500'000'000, work); }
