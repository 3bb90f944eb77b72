// latency [--threads N] [--operations N] [--reserve MIB] [--warm-up SHARE] [--fence 0|1]: the time of every single malloc and free, in
// threads that free each other's blocks. One line of JSON: for each kind of call its histogram in nanoseconds.
//
//   each thread   slot[random]: full? half of the time free it here (own), else hand it to the next thread
//                 ─► malloc a new block into the slot ─► free one block that was handed over (remote) ─► time nothing (empty)
//
// The empty operation is timed as often as malloc, in the same loop: what it shows, the machine adds to every figure.
// A call's clock starts when all loads and stores before it have ended, and stops when all loads have: its own loads are in its time, and
// what this loop does, which looks at each block just before it frees it and writes to each that it gets, is not. Without that (--fence 0)
// an empty operation "takes" what the loop's last cache miss takes; with stores under way it takes more than 200 ns four times in 10,000.
// Before, so that every allocator has what it will need (warm): the threads together take MIB of such blocks, touch every page, and
// free them in random order, half of them each other's; then --warm-up times the work is done untimed. A call during which the kernel took
// the CPU from its thread is torn and counted apart, for all kinds and all allocators alike. How long a line takes from core to core is
// measured before and after.
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "../workloads/workload.hpp"
#include "mortise/data/log_histogram.hpp"
#include "mortise/os/clock.hpp"

namespace {

using Buckets = mortise::LogBuckets<6>;
using mortise::os::ticks;

/// The clock, behind every load before it and ahead of everything after it.
std::uint64_t fenced_ticks() {
#if defined(__x86_64__)
  asm volatile("lfence" : : : "memory");
  const std::uint64_t now = ticks();
  asm volatile("lfence" : : : "memory");
#else
  asm volatile("dsb ld" : : : "memory");
  const std::uint64_t now = ticks();
  asm volatile("isb" : : : "memory");
#endif
  return now;
}
/// Waits until every store before it has reached the cache.
void drain_stores() {
#if defined(__x86_64__)
  asm volatile("mfence" : : : "memory");
#else
  asm volatile("dsb st" : : : "memory");
#endif
}

enum Kind { kMalloc, kFreeOwn, kFreeRemote, kEmpty, kKinds };
constexpr const char* kNames[] = {"malloc", "free own", "free remote", "empty"};
constexpr std::size_t kSmallest = 16, kLargest = 64 << 10, kSlots = 1024, kRing = 512;
constexpr double kSlowSeconds = 5e-6, kGapSeconds = 1e-6;

struct Block {
  char* at;
  std::size_t size;
};

/// One producer, one consumer.
struct Ring {
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  Block blocks[kRing];

  bool push(Block b) {
    const std::size_t at = written.load(std::memory_order_relaxed);
    if (at - read.load(std::memory_order_acquire) == kRing) return false;
    blocks[at % kRing] = b;
    written.store(at + 1, std::memory_order_release);
    return true;
  }
  bool pop(Block& b) {
    const std::size_t at = read.load(std::memory_order_relaxed);
    if (at == written.load(std::memory_order_acquire)) return false;
    b = blocks[at % kRing];
    read.store(at + 1, std::memory_order_release);
    return true;
  }
};

struct Tally {
  std::uint64_t counts[kKinds][Buckets::kCount], torn[kKinds], worst[kKinds], worst_torn[kKinds], ticks_sum[kKinds];
};

struct Worker {
  bench::Random random{1};
  Ring* from = nullptr;
  Ring* to = nullptr;
  Tally* tally = nullptr;
  std::uint64_t operations = 0, slow_ticks = 0, gap_ticks = 0, known_at = 0;
  long preemptions = 0;
  bool is_timing = false, is_fenced = true;
  std::uint64_t checksum = 0, timed = 0, faults = 0;
  Block slots[kSlots] = {};
  std::vector<Block> reserve;

  void look(std::uint64_t now) {
    rusage used;
    getrusage(RUSAGE_THREAD, &used);
    preemptions = used.ru_nivcsw;
    known_at = now;
  }

  /// The moment before a timed call. After a gap, which may have been a preemption, they are counted anew. Not at other times: a call to the
  /// kernel drives out of the caches what the next calls want.
  std::uint64_t begin() {
    if (is_fenced) drain_stores();
    const std::uint64_t now = clock();
    if (now - known_at < gap_ticks) return now;
    look(now);
    return clock();
  }
  std::uint64_t clock() const { return is_fenced ? fenced_ticks() : ticks(); }

  void end(Kind kind, std::uint64_t begun, std::uint64_t ended) {
    const std::uint64_t took = ended - begun;
    if (took < gap_ticks) known_at = ended;
    if (!is_timing) return;
    ++timed;
    tally->ticks_sum[kind] += took;
    if (took >= slow_ticks) {
      const long before = preemptions;
      look(ended);
      if (preemptions != before) {
        ++tally->torn[kind];
        if (took > tally->worst_torn[kind]) tally->worst_torn[kind] = took;
        return;
      }
    }
    ++tally->counts[kind][Buckets::bucket_of(took)];
    if (took > tally->worst[kind]) tally->worst[kind] = took;
  }

  void free_timed(Kind kind, Block b) {
    for (std::size_t at : {std::size_t{0}, b.size - 1})
      if (b.at[at] != static_cast<char>(b.size)) bench::fail("a block does not hold what was written to it");
    const std::uint64_t begun = begin();
    std::free(b.at);
    end(kind, begun, clock());
  }

  Block malloc_timed() {
    const std::size_t size = random.size(kSmallest, kLargest);
    const std::uint64_t begun = begin();
    auto* const at = static_cast<char*>(std::malloc(size));
    end(kMalloc, begun, clock());
    if (at == nullptr) bench::fail("no memory");
    at[0] = at[size - 1] = static_cast<char>(size);
    return {at, size};
  }

  void step() {
    Block& slot = slots[random.below(kSlots)];
    if (slot.at != nullptr && (random.next() & 1 || !to->push(slot))) free_timed(kFreeOwn, slot);
    slot = malloc_timed();
    if (Block b; from->pop(b)) free_timed(kFreeRemote, b);
    const std::uint64_t begun = begin();
    asm volatile("" : : : "memory");
    end(kEmpty, begun, clock());
  }

  /// Takes blocks of `bytes` in all, and brings their pages in.
  void take_reserve(std::size_t bytes) {
    for (std::size_t sum = 0; sum < bytes; sum += reserve.back().size) {
      reserve.push_back(malloc_timed());
      for (std::size_t at = 0; at + 1 < reserve.back().size; at += 4096) reserve.back().at[at] = reserve.back().at[0];
    }
    for (std::size_t i = reserve.size(); i > 1; --i) std::swap(reserve[i - 1], reserve[random.below(i)]);
  }
  /// Frees every other block of its own and of another thread's reserve.
  void free_reserve(Worker& other) {
    for (std::size_t i = 0; i < reserve.size(); i += 2) free_timed(kFreeOwn, reserve[i]);
    for (std::size_t i = 1; i < other.reserve.size(); i += 2) free_timed(kFreeRemote, other.reserve[i]);
  }

  void drain() {
    is_timing = false;
    for (Block& b : slots)
      if (b.at != nullptr) free_timed(kFreeOwn, b);
    for (Block b; from->pop(b);) free_timed(kFreeRemote, b);
  }
};

double ticks_per_second() {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  const double begun_at = now();
  const std::uint64_t begun = ticks();
  while (now() - begun_at < 0.05) {
  }
  return static_cast<double>(ticks() - begun) / (now() - begun_at);
}

cpu_set_t allowed() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return set;
}
const cpu_set_t kAllowed = allowed();

/// Keeps the calling thread on one of the CPUs that the process may use, counted by `index`.
void stay(unsigned index) {
  unsigned place = index % static_cast<unsigned>(CPU_COUNT(&kAllowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &kAllowed) || place-- != 0) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    break;
  }
}

/// Nanoseconds that a line takes from the first CPU to the second: half a turn of two threads, each of which waits for the other's store.
/// The CPUs of a virtual machine may share a cache in one minute and none in the next; calls that take another core's lines follow.
/// 0 where there is but one CPU.
double line_ns(double ticks_per_ns) {
  constexpr unsigned kTurns = 20000;
  if (CPU_COUNT(&kAllowed) < 2) return 0;
  alignas(64) std::atomic<unsigned> turn{0};
  const auto play = [&](unsigned index) {
    stay(index);
    for (unsigned i = index; i < 2 * kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) {
      }
      turn.store(i + 1, std::memory_order_release);
    }
  };
  std::thread second(play, 1);
  std::uint64_t took = 0;
  std::thread first([&] {
    const std::uint64_t begun = ticks();
    play(0);
    took = ticks() - begun;
  });
  first.join();
  second.join();
  return static_cast<double>(took) / ticks_per_ns / (2 * kTurns);
}

/// Waits for all threads, each of which comes by once for each `round`, counted from 1.
void meet(std::atomic<unsigned>& ready, unsigned threads, unsigned round) {
  ready.fetch_add(1);
  while (ready.load() < round * threads) sched_yield();
}

void work(Worker* workers, unsigned index, std::atomic<unsigned>& met, std::atomic<unsigned>& ready, unsigned threads, std::size_t reserve,
          double warm_up) {
  Worker& w = workers[index];
  stay(index);
  w.take_reserve(reserve / threads);
  meet(met, threads, 1);
  w.free_reserve(workers[(index + 1) % threads]);
  meet(met, threads, 2);
  const auto warm = static_cast<std::uint64_t>(static_cast<double>(w.operations) * warm_up);
  for (std::uint64_t i = 0; i < warm; ++i) w.step();
  ready.fetch_add(1);
  while (ready.load() < threads) w.step();  // both are at it from the first timed call on
  w.is_timing = true;
  rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  while (w.timed < w.operations) w.step();
  getrusage(RUSAGE_THREAD, &after);
  w.faults = static_cast<std::uint64_t>(after.ru_minflt - before.ru_minflt);
  w.is_timing = false;
  // Nobody stops handing blocks over while another is still being timed.
  ready.fetch_add(1);
  while (ready.load() < 2 * threads) w.step();
}

void print(const Worker* workers, unsigned threads, double per_ns, const double (&line)[2]) {
  std::uint64_t faults = 0;
  for (unsigned t = 0; t < threads; ++t) faults += workers[t].faults;
  std::printf("{\"threads\":%u,\"minor_faults\":%llu,\"ticks_per_ns\":%.9g,\"line_ns\":[%.1f,%.1f],\"kinds\":{", threads,
              static_cast<unsigned long long>(faults), per_ns, line[0], line[1]);
  for (int kind = 0; kind < kKinds; ++kind) {
    std::uint64_t torn = 0, worst = 0, worst_torn = 0, sum = 0;
    for (unsigned t = 0; t < threads; ++t) {
      const Tally& tally = *workers[t].tally;
      torn += tally.torn[kind];
      sum += tally.ticks_sum[kind];
      if (tally.worst[kind] > worst) worst = tally.worst[kind];
      if (tally.worst_torn[kind] > worst_torn) worst_torn = tally.worst_torn[kind];
    }
    const auto ns = [=](std::uint64_t t) { return static_cast<double>(t) / per_ns; };
    std::printf("%s\"%s\":{\"torn\":%llu,\"worst_ns\":%.1f,\"worst_torn_ns\":%.1f,\"sum_ns\":%.0f,\"histogram\":[",
                kind ? "," : "", kNames[kind], static_cast<unsigned long long>(torn), ns(worst), ns(worst_torn), ns(sum));
    const char* separator = "";
    for (unsigned b = 0; b < Buckets::kCount; ++b) {
      std::uint64_t count = 0;
      for (unsigned t = 0; t < threads; ++t) count += workers[t].tally->counts[kind][b];
      if (count == 0) continue;
      std::printf("%s[%.1f,%llu]", separator, ns(Buckets::floor_of(b + 1) - 1), static_cast<unsigned long long>(count));
      separator = ",";
    }
    std::printf("]}");
  }
  Dl_info info{};
  dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info);
  std::printf("},\"malloc\":\"%s\"}\n", info.dli_fname != nullptr ? info.dli_fname : "unknown");
}

}  // namespace

int main(int argc, char** argv) {
  unsigned threads = 2;
  double operations = 20e6, warm_up = 0.1, reserve_mib = 256, fence = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = static_cast<unsigned>(std::atoi(argv[i + 1]));
    else if (std::strcmp(argv[i], "--operations") == 0) operations = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--warm-up") == 0) warm_up = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--reserve") == 0) reserve_mib = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--fence") == 0) fence = std::atof(argv[i + 1]);
    else threads = 0;
  }
  if (argc % 2 == 0 || threads < 1 || threads > 256 || operations < 1 || warm_up < 0 || reserve_mib < 0) {
    std::fprintf(stderr, "latency: expected [--threads 1..256] [--operations N] [--reserve MIB] [--warm-up SHARE] [--fence 0|1]\n");
    return 2;
  }
  const double rate = ticks_per_second();
  auto rings = std::make_unique<Ring[]>(threads);
  auto tallies = std::make_unique<Tally[]>(threads);  // zeroed, and so every page is there
  auto workers = std::make_unique<Worker[]>(threads);
  std::atomic<unsigned> met{0}, ready{0};
  for (unsigned t = 0; t < threads; ++t) {
    Worker& w = workers[t];
    w.random = bench::Random(t + 1);
    w.from = &rings[t];
    w.to = &rings[(t + 1) % threads];
    w.tally = &tallies[t];
    w.is_fenced = fence != 0;
    w.operations = static_cast<std::uint64_t>(operations / threads);
    w.slow_ticks = static_cast<std::uint64_t>(kSlowSeconds * rate);
    w.gap_ticks = static_cast<std::uint64_t>(kGapSeconds * rate);
  }
  double line[2] = {line_ns(rate / 1e9)};
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] { work(workers.get(), t, met, ready, threads, static_cast<std::size_t>(reserve_mib * 1048576), warm_up); });
  for (std::thread& thread : running) thread.join();
  line[1] = line_ns(rate / 1e9);
  for (unsigned t = 0; t < threads; ++t) workers[t].drain();
  print(workers.get(), threads, rate / 1e9, line);
  return 0;
}
