// Passive false sharing: one thread takes small blocks side by side and hands one to each worker, which frees it.
//
// An allocator that then serves the worker from that same line has inherited the sharing for as long as the worker
// lives. An operation is one write.
#include "workload.hpp"

namespace {

constexpr std::uint64_t kWrites = 400;

std::uint64_t write_to(volatile std::uint64_t* counter) {
  *counter = 0;
  for (std::uint64_t i = 0; i < kWrites; ++i) *counter = *counter + 1;
  if (*counter != kWrites) bench::fail("a counter is shared");
  return *counter;
}

std::uint64_t work(void* inherited, std::uint64_t ops) {
  std::free(inherited);
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < ops; done += kWrites) {
    void* block = std::malloc(sizeof(std::uint64_t));
    if (block == nullptr) bench::fail("no memory");
    sum += write_to(static_cast<std::uint64_t*>(block));
    std::free(block);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options(argc, argv, 1'200'000'000);
  std::vector<void*> given(options.threads);
  for (void*& block : given) block = std::malloc(sizeof(std::uint64_t));
  std::atomic<std::uint64_t> checksum{0};
  bench::on_threads(options.threads, [&](unsigned n) { checksum += work(given[n], options.ops / options.threads); });
  return bench::report("sharing_passive", options, checksum);
}
