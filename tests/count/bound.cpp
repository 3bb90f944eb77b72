// mortise-bound COUNTED.so [--calls N] [--seed S] [--live MiB]: the most instructions of any malloc and any free of wfslab, of
// calls made up to be bad: spans filled and emptied in every order, by another thread, block by block across all words, while
// threads end and begin. The reserve is warm and growing is forbidden, so a call that would leave the wait-free paths fails.
//
// If the maximum of a malloc exceeds kMallocMax, or of a free kFreeMax, the bound that docs/6-proof.md states is not kept.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "counted.hpp"

namespace mortise::count {
namespace {

constexpr std::uint64_t kMallocMax = 2000, kFreeMax = 300;
constexpr unsigned kTroupe = 3;  // threads at a time, one of which acts

struct Options {
  std::uint64_t calls = std::getenv("MORTISE_TEST_ALL") ? 12'000'000 : 400'000, seed = 1, live = 40;
};

struct Stage {
  Stage(const Library& library, const Options& given) : allocator(library), options(given), random(given.seed) {}

  Counted allocator;
  Options options;
  Random random;
  std::vector<std::pair<char*, std::size_t>> held;
  std::uint64_t bytes = 0, calls = 0, malloc_most = 0, free_most = 0, mallocs = 0;

  void allocate(std::size_t size, const Counters& counters) {
    auto* const p = static_cast<char*>(allocator.malloc(size, counters, malloc_most));
    if (!p) {
      std::fprintf(stderr, "mortise-bound: the reserve is exhausted with %llu bytes live\n", (unsigned long long)bytes);
      std::exit(1);
    }
    held.emplace_back(p, size);
    bytes += size;
    ++calls, ++mallocs;
  }
  void release(std::size_t i, const Counters& counters) {
    allocator.free(held[i].first, counters, free_most);
    bytes -= held[i].second;
    held[i] = held.back();
    held.pop_back();
    ++calls;
  }

  /// A few thousand calls of one kind.
  void act(const Counters& counters) {
    const std::uint64_t what = random.below(8), room = options.live << 20;
    const std::size_t log2 = 4 + random.below(13), one = std::size_t{1} << log2;
    const bool mixed = random.below(2);
    const auto size = [&] { return mixed ? 1 + random.below(one) : one; };
    const std::size_t most = std::min<std::size_t>(6000, std::max<std::size_t>(64, room / 4 / one));
    if (what < 4)
      for (std::size_t n = 0; n < most && bytes + one < room; ++n) allocate(size(), counters);
    if (what == 4) std::sort(held.begin(), held.end(), std::greater<>());  // whole spans, from the lowest address on
    if (what == 5)  // one block of each word, then the next: every free wakes its word
      std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) {
        const auto key = [](const auto& h) { return std::pair(reinterpret_cast<std::uintptr_t>(h.first) / h.second % 64, h.first); };
        return key(a) < key(b);
      });
    if (what >= 4)
      for (std::size_t n = 0; n < most && !held.empty(); ++n)
        release(what < 6 ? held.size() - 1 : random.below(held.size()), counters);
    if (what == 7)
      for (std::size_t n = 0; n < most && bytes + one < room; ++n) {
        allocate(size(), counters);
        if (random.below(3)) release(random.below(held.size()), counters);
      }
  }
};

/// A thread that acts when it is its turn.
class Actor {
 public:
  Actor(Stage& stage, Counters& counters) : stage_(stage), counters_(counters), thread_([this] { live(); }) {}
  ~Actor() {
    turn_ = kEnd;
    turn_.notify_one();
    thread_.join();
  }
  void act() {
    turn_ = kAct;
    turn_.notify_one();
    turn_.wait(kAct);
  }

 private:
  enum { kRest, kAct, kEnd };
  void live() {
    count_here(counters_);
    std::uint64_t first = 0;  // the first call of a thread takes a slot, and is not one of those that are bounded
    stage_.allocator.free(stage_.allocator.malloc(1, counters_, first), counters_, first);
    for (;;) {
      turn_.wait(kRest);
      if (turn_ == kEnd) return;
      stage_.act(counters_);
      turn_ = kRest;
      turn_.notify_one();
    }
  }
  Stage& stage_;
  Counters& counters_;
  std::atomic<int> turn_{kRest};
  std::thread thread_;
};

int run(const char* path, const Options& options) {
  ::setenv("MORTISE_CONF", "reserve_mb=256,on_exhausted=fail", 1);
  static Counters main_counters;
  count_here(main_counters);
  Stage stage(load(path), options);
  std::vector<std::unique_ptr<Counters>> counters;
  std::vector<std::unique_ptr<Actor>> troupe(kTroupe);
  const auto engage = [&](std::unique_ptr<Actor>& actor) {
    actor.reset();
    counters.push_back(std::make_unique<Counters>());
    actor = std::make_unique<Actor>(stage, *counters.back());
  };
  for (auto& actor : troupe) engage(actor);
  while (stage.calls < options.calls) {
    auto& actor = troupe[stage.random.below(kTroupe)];
    if (stage.random.below(20) == 0) engage(actor);
    actor->act();
  }
  std::printf("%llu calls, up to %llu MiB live: malloc at most %llu instructions, free at most %llu\n",
              (unsigned long long)stage.calls, (unsigned long long)options.live, (unsigned long long)stage.malloc_most,
              (unsigned long long)stage.free_most);
  std::fflush(stdout);
  std::_Exit(stage.malloc_most <= kMallocMax && stage.free_most <= kFreeMax ? 0 : 1);
}

}  // namespace
}  // namespace mortise::count

int main(int argc, char** argv) {
  mortise::count::Options options;
  const char* path = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0)) path = argv[i];
    else if (i + 1 == argc) return std::fprintf(stderr, "mortise-bound: %s wants a number\n", argv[i]), 2;
    else if (word == "--calls") options.calls = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--seed") options.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--live") options.live = std::strtoull(argv[++i], nullptr, 10);
    else return std::fprintf(stderr, "mortise-bound: unknown option %s; expected --calls, --seed or --live\n", argv[i]), 2;
  }
  if (!path) return std::fprintf(stderr, "usage: mortise-bound COUNTED.so [--calls N] [--seed S] [--live MiB]\n"), 2;
  return mortise::count::run(path, options);
}
