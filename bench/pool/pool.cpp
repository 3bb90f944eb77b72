// One design under one load, for a number of tests; a line of JSON for each test.
//
//   pool DESIGN THREADS LOAD TESTS ITERATIONS [antagonists]
//     LOAD   pair      acquire, write a word, release
//            crc       half of the threads write a payload and its checksum, the other half check it
//            handoff   half of the threads acquire and hand over, the other half release
//     ITERATIONS       of all threads together
//     antagonists      a thread of real-time priority that preempts the others, and one that moves them between CPUs
//
// Times are taken inside the threads: the first start to the last end. A thread that runs alone sees no contention, so
// the time that threads spent on CPUs, divided by the time that passed, is printed too: far below the number of CPUs, a
// figure of contention says nothing. Threads are pinned by the parity of their number's bits, so that thread rules do
// not happen to line up with the CPUs.
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "designs.hpp"

namespace bench {
namespace {

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

std::uint64_t checksum(const std::uint64_t (&words)[8]) {
  std::uint64_t sum = ~std::uint64_t{0};
#if defined(__SSE4_2__)
  for (const std::uint64_t word : words) sum = __builtin_ia32_crc32di(sum, word);
#else
  for (const std::uint64_t word : words) {  // the same polynomial, bit by bit
    sum ^= word;
    for (int i = 0; i < 64; ++i) sum = sum >> 1 ^ (sum & 1 ? 0x95AC9329AC4BC9B5u : 0);
  }
#endif
  return sum;
}

int cpus() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return CPU_COUNT(&set);
}

void pin(unsigned number, int count) {
  cpu_set_t allowed, one;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int want = count == 2 ? __builtin_popcount(number) & 1 : static_cast<int>(number * 2654435769u >> 16) % count;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && want-- == 0) CPU_SET(cpu, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

struct Ring {
  static constexpr unsigned kDepth = 256;
  alignas(64) std::atomic<unsigned> head{0};
  alignas(64) std::atomic<unsigned> tail{0};
  Entry* slot[kDepth];
};

struct Result {
  double start = 0, end = 0, cpu = 0;
  std::uint64_t errors = 0, empties = 0;
};

enum class Load { pair, crc, handoff };

template <class Design>
class Test {
 public:
  Test(unsigned threads, Load load, long iterations, bool antagonists)
      : threads_(threads),
        load_(load),
        each_(iterations / threads),
        antagonists_(antagonists),
        rings_(threads / 2 + 1),
        results_(threads) {}

  void run(const char* name, int test) {
    design_.each([](Entry& e) { e.crc = checksum(e.words); });
    pthread_barrier_init(&barrier_, nullptr, threads_);
    pthread_barrier_init(&finish_, nullptr, threads_ + 1);
    std::vector<std::thread> all;
    ids_.resize(threads_);
    for (unsigned t = 0; t < threads_; ++t) all.emplace_back([this, t] { work(t); });
    for (unsigned t = 0; t < threads_; ++t) ids_[t] = all[t].native_handle();
    std::thread preempts, moves;
    if (antagonists_) {
      preempts = std::thread([this] { preempt(); });
      moves = std::thread([this] { move(); });
    }
    pthread_barrier_wait(&finish_);  // the threads stay until nobody moves them any more
    stop_ = true;
    if (antagonists_) preempts.join(), moves.join();
    pthread_barrier_wait(&finish_);
    for (auto& thread : all) thread.join();
    print(name, test);
  }

 private:
  Entry* acquire(Result& r) {
    for (;;) {
      if (Entry* const e = design_.acquire()) return e;
      ++r.empties;
      sched_yield();
    }
  }
  void work(unsigned t) {
    if (!antagonists_) pin(t, cpus());
    design_.thread_begins();
    Result r;
    pthread_barrier_wait(&barrier_);
    const double cpu = now(CLOCK_THREAD_CPUTIME_ID);
    r.start = now(CLOCK_MONOTONIC);
    if (load_ == Load::pair) pairs(r);
    else if (load_ == Load::crc) t % 2 ? check(r) : write(r, t);
    else t % 2 ? take_over(rings_[t / 2]) : hand_over(rings_[t / 2], r);
    r.end = now(CLOCK_MONOTONIC);
    r.cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    results_[t] = r;
    pthread_barrier_wait(&finish_);
    pthread_barrier_wait(&finish_);
    design_.thread_ends();
  }
  void pairs(Result& r) {
    for (long i = 0; i < each_; ++i) {
      Entry* const e = acquire(r);
      *const_cast<volatile std::uint64_t*>(&e->words[7]) = static_cast<std::uint64_t>(i);
      design_.release(e);
    }
  }
  void write(Result& r, unsigned t) {
    std::uint64_t state = 88172645463325252u * (t + 1) | 1;
    for (long i = 0; i < each_; ++i) {
      Entry* const e = acquire(r);
      for (std::uint64_t& word : e->words) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        word = state;
      }
      e->crc = checksum(e->words);
      design_.release(e);
    }
  }
  void check(Result& r) {
    for (long i = 0; i < each_; ++i) {
      Entry* const e = acquire(r);
      r.errors += checksum(e->words) != e->crc;
      design_.release(e);
    }
  }
  void hand_over(Ring& ring, Result& r) {
    for (long i = 0; i < each_; ++i) {
      Entry* const e = acquire(r);
      *const_cast<volatile std::uint64_t*>(&e->words[7]) = static_cast<std::uint64_t>(i);
      const unsigned at = ring.head.load(std::memory_order_relaxed);
      while (at - ring.tail.load(std::memory_order_acquire) >= Ring::kDepth) sched_yield();
      ring.slot[at % Ring::kDepth] = e;
      ring.head.store(at + 1, std::memory_order_release);
    }
  }
  void take_over(Ring& ring) {
    for (long i = 0; i < each_; ++i) {
      const unsigned at = ring.tail.load(std::memory_order_relaxed);
      while (ring.head.load(std::memory_order_acquire) == at) sched_yield();
      Entry* const e = ring.slot[at % Ring::kDepth];
      ring.tail.store(at + 1, std::memory_order_release);
      design_.release(e);
    }
  }

  void preempt() {
    const sched_param high{1};
    real_time_ = pthread_setschedparam(pthread_self(), SCHED_RR, &high) == 0;
    unsigned i = 0;
    while (!stop_) {
      pin(i++, cpus());
      const double until = now(CLOCK_MONOTONIC) + 20e3;
      while (now(CLOCK_MONOTONIC) < until) {
      }
      usleep(100);
    }
  }
  void move() {
    unsigned i = 0;
    while (!stop_) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET((i >> 3 ^ i) % static_cast<unsigned>(cpus()), &one);
      pthread_setaffinity_np(ids_[i++ * 7 % threads_], sizeof one, &one);
      usleep(1000 / threads_ + 1);
    }
  }

  void print(const char* name, int test) {
    double start = 1e300, end = 0, cpu = 0;
    std::uint64_t errors = 0, empties = 0;
    for (const Result& r : results_) {
      start = r.start < start ? r.start : start;
      end = r.end > end ? r.end : end;
      cpu += r.cpu, errors += r.errors, empties += r.empties;
    }
    const double operations = static_cast<double>(each_) * threads_ / (load_ == Load::handoff ? 2 : 1);
    const Counted counted = design_.counted();
    std::printf(
        "{\"design\":\"%s\",\"threads\":%u,\"test\":%d,\"operations\":%.0f,\"wall_ns\":%.3f,\"cpu_ns\":%.3f,"
        "\"parallelism\":%.3f,\"contention_pct\":%.5f,\"steals\":%llu,\"empties\":%llu,\"crc_errors\":%llu,"
        "\"real_time_antagonist\":%s}\n",
        name, threads_, test, operations, (end - start) / operations, cpu / operations, cpu / (end - start),
        100.0 * static_cast<double>(counted.contention) / operations, static_cast<unsigned long long>(counted.steals),
        static_cast<unsigned long long>(empties), static_cast<unsigned long long>(errors),
        real_time_ ? "true" : "false");
  }

  Design design_;
  unsigned threads_;
  Load load_;
  long each_;
  bool antagonists_;
  std::vector<Ring> rings_;
  std::vector<Result> results_;
  std::vector<pthread_t> ids_;
  pthread_barrier_t barrier_{}, finish_{};
  std::atomic<bool> stop_{false}, real_time_{false};
};

struct Run {
  const char* design;
  unsigned threads;
  Load load;
  int tests;
  long iterations;
  bool antagonists;
};

template <class Design>
void run(const Run& r) {
  for (int i = 0; i < r.tests; ++i) {
    auto test = std::make_unique<Test<Design>>(r.threads, r.load, r.iterations, r.antagonists);
    test->run(r.design, i);
  }
}

template <class Rule, class Head>
bool run_array(const std::string& pools, const Run& r) {
  if (pools == "1") return run<Array<1, Rule, Head>>(r), true;
  if (pools == "2") return run<Array<2, Rule, Head>>(r), true;
  if (pools == "4") return run<Array<4, Rule, Head>>(r), true;
  if (pools == "8") return run<Array<8, Rule, Head>>(r), true;
  return false;
}

bool dispatch(const Run& r) {
  using namespace mortise;
  const std::string design = r.design;
  if (design == "distributed") return run<Distributed<pool_front::automatic>>(r), true;
  if (design == "distributed-threads") return run<Distributed<pool_front::threads>>(r), true;
  if (design == "distributed-none") return run<Distributed<pool_front::none>>(r), true;
  if (design == "mutex") return run<Mutex>(r), true;
  if (design == "boost") return run<BoostStack>(r), true;
  if (design == "moodycamel") return run<Moodycamel>(r), true;
  if (design == "tbb") return run<TbbQueue>(r), true;
  if (design.rfind("malloc", 0) == 0) return run<Malloc>(r), true;
  const std::size_t colon = design.find(':');
  if (colon == std::string::npos) return false;
  const std::string rule = design.substr(0, colon), pools = design.substr(colon + 1);
  if (rule == "by_thread_in_turn") return run_array<by_thread_in_turn, pools::AsymmetricHead>(pools, r);
  if (rule == "by_thread_hash") return run_array<by_thread_hash, pools::AsymmetricHead>(pools, r);
  if (rule == "by_core") return run_array<by_core, pools::AsymmetricHead>(pools, r);
  if (rule == "by_core/pair_head") return run_array<by_core, pools::PairHead>(pools, r);
  if (rule == "by_core/index_head") return run_array<by_core, pools::IndexHead>(pools, r);
  return false;
}

}  // namespace
}  // namespace bench

int main(int count, char** words) {
  using bench::Load;
  const auto usage = [&] {
    std::fprintf(
        stderr,
        "usage: %s DESIGN THREADS pair|crc|handoff TESTS ITERATIONS [antagonists]\n"
        "  DESIGN: distributed[-threads|-none], RULE:POOLS (by_core:2), mutex, boost, moodycamel, tbb, malloc\n",
        words[0]);
    return 2;
  };
  if (count < 6) return usage();
  const std::string load = words[3];
  const Load loads = load == "pair" ? Load::pair : load == "crc" ? Load::crc : Load::handoff;
  const bench::Run run{words[1],
                       static_cast<unsigned>(std::atoi(words[2])),
                       loads,
                       std::atoi(words[4]),
                       std::atol(words[5]),
                       count > 6 && !std::strcmp(words[6], "antagonists")};
  if (run.threads < 1 || run.tests < 1 || run.iterations < run.threads ||
      (load != "pair" && load != "crc" && load != "handoff") || (load != "pair" && run.threads % 2))
    return usage();
  return bench::dispatch(run) ? 0 : usage();
}
