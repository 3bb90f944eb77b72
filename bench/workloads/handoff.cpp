// Every free is remote: half of the threads make messages, the other half read and free them.
//
// Messages travel in batches through a bounded queue a pair, so that the queue costs little beside the blocks. An
// operation is one block made by one thread and freed by another.
#include <condition_variable>
#include <mutex>

#include "workload.hpp"

namespace {

constexpr std::size_t kBatch = 64, kDepth = 32;

/// Hands batches from one thread to another; the maker waits when `kDepth` of them lie unread.
class Queue {
 public:
  void push(bench::Piece* batch) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return written_ - read_ < kDepth; });
    ring_[written_++ % kDepth] = batch;
    if (written_ - read_ == kDepth / 2) not_empty_.notify_one();
  }

  /// The end: whatever is left may be read, then comes a null batch.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    not_empty_.notify_one();
  }

  bench::Piece* pop() {
    std::unique_lock lock(mutex_);
    if (read_ == written_) not_empty_.wait(lock, [&] { return written_ - read_ >= kDepth / 2 || closed_; });
    if (read_ == written_) return nullptr;
    bench::Piece* batch = ring_[read_++ % kDepth];
    if (written_ - read_ == kDepth / 2) not_full_.notify_one();
    return batch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  std::size_t read_ = 0, written_ = 0;
  bool closed_ = false;
  bench::Piece* ring_[kDepth] = {};
};

void make(Queue& queue, std::uint64_t ops, bench::Random random) {
  for (std::uint64_t done = 0; done < ops; done += kBatch) {
    auto* batch = static_cast<bench::Piece*>(std::malloc(kBatch * sizeof(bench::Piece)));
    for (std::size_t i = 0; i < kBatch; ++i) batch[i] = bench::Piece::take(random.size(16, 512), done + i);
    queue.push(batch);
  }
  queue.close();
}

std::uint64_t read(Queue& queue) {
  std::uint64_t sum = 0;
  while (bench::Piece* batch = queue.pop()) {
    for (std::size_t i = 0; i < kBatch; ++i) sum += batch[i].give_back();
    std::free(batch);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options(argc, argv, 8'000'000);
  const unsigned pairs = options.threads > 1 ? options.threads / 2 : 1;
  std::vector<Queue> queues(pairs);
  std::atomic<std::uint64_t> checksum{0};
  bench::on_threads(2 * pairs, [&](unsigned n) {
    if (n < pairs) {
      make(queues[n], options.ops / pairs, bench::Random(n + 1));
    } else {
      checksum += read(queues[n - pairs]);
    }
  });
  return bench::report("handoff", options, checksum);
}
