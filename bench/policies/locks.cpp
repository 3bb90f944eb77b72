// tlsfcc, TLSF with each answer to its Sync slot, and tlsfcc with each lock: how long the same calls take with as many threads.
//
//   locks [--rounds N] [--threads 1,2,4,8,16] [--calls N] [--only NAME,...]     one line of JSON a cell: every run's seconds, by lock
//
// One binary, one source, one backbone; only the slot differs, and whether the array is above it (names that end in `+array`). Threads
// are pinned to the cores in turn: where the kernel would put them is no property of a lock. A round visits the cells in order and,
// within a cell, the locks in random order, so that a ratio is taken between neighbours in time. The work is fixed: `calls` of malloc and
// free together, spread over the threads. Every block is written to at its start.
//
//   larson    each thread replaces random blocks of its table; after each hundred the tables go round among the threads
//   handoff   half of the threads allocate, the others free what comes through a ring, 32 at a time (one thread: by turns)
//   mixed     a small working set of mixed sizes for each thread
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mortise/allocators/tlsfcc.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/cc_synch_lock.hpp"
#include "mortise/sync/combining_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/ticket_lock.hpp"

namespace mortise {

void report(Fault fault, Block) noexcept {
  std::fprintf(stderr, "locks: %s\n", name_of(fault));
  std::abort();
}

namespace bench {
namespace {

/// What programs mean by a mutex.
class PthreadMutex {
 public:
  static constexpr const char* kName = "mutex";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  void reset() noexcept { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

struct Random {
  std::uint64_t state;
  std::uint32_t below(std::uint32_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::uint32_t>((state >> 32) * n >> 32);
  }
};

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void pin(unsigned i) {
  cpu_set_t may, one;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return;
  unsigned skip = i % static_cast<unsigned>(CPU_COUNT(&may));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &may) && skip-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

struct Ring {
  static constexpr std::size_t kSize = 512;
  alignas(64) std::atomic<std::size_t> head{0};
  alignas(64) std::atomic<std::size_t> tail{0};
  std::byte* slot[kSize];
};

/// A heap and the three ways of using it.
template <class Heap> class Arm {
 public:
  explicit Arm(unsigned threads) : heap_(std::make_unique<Heap>()), threads_(threads) { heap_->start({}); }

  double larson(std::size_t calls) {
    constexpr std::size_t kSlots = 1000, kStint = 100;
    std::vector<std::vector<std::byte*>> tables(threads_, std::vector<std::byte*>(kSlots, nullptr));
    std::vector<std::atomic<bool>> taken(threads_);
    const double seconds = on_all([&](unsigned i) {
      Random random{i * 7919u + 1};
      std::size_t mine = i;
      for (std::size_t n = calls / 2 / threads_; n > 0;) {
        while (taken[mine].exchange(true, std::memory_order_acquire)) mine = (mine + 1) % threads_;
        for (std::size_t stint = std::min(n, kStint); stint > 0; --stint, --n) {
          std::byte*& slot = tables[mine][random.below(kSlots)];
          if (slot) release(slot);
          slot = allocate(8 + random.below(993));
        }
        taken[mine].store(false, std::memory_order_release);
        mine = (mine + 1) % threads_;
      }
    });
    for (auto& table : tables)
      for (std::byte* p : table)
        if (p) release(p);
    return seconds;
  }

  double handoff(std::size_t calls) {
    if (threads_ == 1) return by_turns(calls);
    constexpr std::size_t kAtATime = 32;
    const unsigned pairs = threads_ / 2;
    std::vector<Ring> rings(pairs);
    const std::size_t blocks = calls / 2 / pairs / kAtATime * kAtATime;
    return on_all([&](unsigned i) {
      Ring& ring = rings[i / 2];
      Random random{i + 11};
      for (std::size_t n = 0; n < blocks; n += kAtATime) {
        if (i % 2 == 0) {
          while (n - ring.tail.load(std::memory_order_acquire) == Ring::kSize) wait();
          for (std::size_t at = n; at < n + kAtATime; ++at) ring.slot[at % Ring::kSize] = allocate(16 + random.below(500));
          ring.head.store(n + kAtATime, std::memory_order_release);
        } else {
          while (ring.head.load(std::memory_order_acquire) == n) wait();
          for (std::size_t at = n; at < n + kAtATime; ++at) release(ring.slot[at % Ring::kSize]);
          ring.tail.store(n + kAtATime, std::memory_order_release);
        }
      }
    });
  }

  double mixed(std::size_t calls) {
    constexpr std::size_t kSlots = 64;
    return on_all([&](unsigned i) {
      Random random{i * 104729u + 5};
      std::byte* slot[kSlots] = {};
      for (std::size_t n = calls / 2 / threads_; n > 0; --n) {
        std::byte*& s = slot[random.below(kSlots)];
        if (s) release(s);
        const std::uint32_t range = 16u << random.below(8);
        s = allocate(range + random.below(range));
      }
      for (std::byte* s : slot)
        if (s) release(s);
    });
  }

 private:
  static inline thread_local typename Heap::Thread t{};
  std::byte* allocate(std::size_t size) noexcept {
    const Block b = heap_->allocate(t, {.size = size});
    if (!b) std::abort();
    std::memcpy(b.ptr, &size, sizeof size);
    return b.ptr;
  }
  void release(std::byte* p) noexcept {
    heap_->release(t, {p, 0});
  }
  /// A ring that is full or empty: the other side may need this core.
  static void wait() { std::this_thread::yield(); }

  double by_turns(std::size_t calls) {
    return on_all([&](unsigned) {
      Random random{11};
      std::byte* batch[256];
      for (std::size_t n = calls / 512; n > 0; --n) {
        for (auto& p : batch) p = allocate(16 + random.below(500));
        for (auto& p : batch) release(p);
      }
    });
  }

  /// Runs `work(i)` on every thread from one moment on; the seconds until the last has ended.
  template <class Work> double on_all(Work work) {
    std::atomic<unsigned> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < threads_; ++i)
      threads.emplace_back([&, i] {
        pin(i);
        attach_below(*heap_, t);
        ready.fetch_add(1);
        while (!go.load()) std::this_thread::yield();
        work(i);
        detach_below(*heap_, t);
      });
    while (ready.load() != threads_) std::this_thread::yield();
    const double begun = now();
    go.store(true);
    for (auto& each : threads) each.join();
    return now() - begun;
  }

  std::unique_ptr<Heap> heap_;
  unsigned threads_;
};

constexpr const char* kWorkloads[] = {"larson", "handoff", "mixed"};

template <class Heap> double run(unsigned workload, unsigned threads, std::size_t calls) {
  Arm<Heap> arm(threads);
  return workload == 0 ? arm.larson(calls) : workload == 1 ? arm.handoff(calls) : arm.mixed(calls);
}

template <class Sync> using Plain = Stack<Layers<Tlsf<Sync>, MmapHeap<>>>;
template <class Sync> using WithArray = Stack<Layers<EliminationArray<>, Tlsf<Sync>, LimitedTo<>, MmapHeap<>>>;  // tlsfcc but for the lock

struct Named {
  const char* name;
  double (*run)(unsigned workload, unsigned threads, std::size_t calls);
  bool spins = false;  ///< waits for whoever is off its core, fair: little work, or it would take all of the time
};
constexpr Named kLocks[] = {{"tlsfcc", run<TlsfccHeap>},
                            {"flat", run<Plain<FlatCombiningLock<>>>},
                            {"ccsynch", run<Plain<CcSynchLock<>>>},
                            {"queue", run<Plain<CombiningLock<>>>},
                            {"mutex", run<Plain<PthreadMutex>>},
                            {"futex", run<Plain<FutexLock>>},
                            {"mcs", run<Plain<McsLock>>, true},
                            {"ticket", run<Plain<TicketLock>>, true},
                            {"ccsynch+array", run<WithArray<CcSynchLock<>>>},
                            {"mutex+array", run<WithArray<PthreadMutex>>},
                            {"futex+array", run<WithArray<FutexLock>>},
                            {"mcs+array", run<WithArray<McsLock>>, true},
                            {"ticket+array", run<WithArray<TicketLock>>, true}};

int all(unsigned rounds, const std::vector<unsigned>& counts, std::size_t calls, const std::string& only) {
  std::vector<const Named*> arms;
  for (const Named& lock : kLocks)
    if (only.empty() || ("," + only + ",").find("," + std::string(lock.name) + ",") != std::string::npos) arms.push_back(&lock);
  Random random{static_cast<std::uint64_t>(now() * 1e9) | 1};
  for (unsigned round = 0; round < rounds; ++round)
    for (const unsigned threads : counts)
      for (unsigned workload = 0; workload < std::size(kWorkloads); ++workload) {
        std::vector<std::size_t> order(arms.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i + 1))]);
        std::vector<double> seconds(arms.size());
        for (const std::size_t i : order) {
          const std::size_t part = arms[i]->spins && threads > 1 ? 256 : 1;
          seconds[i] = arms[i]->run(workload, threads, calls / part) * static_cast<double>(part);
        }
        std::printf("{\"round\":%u,\"workload\":\"%s\",\"threads\":%u", round, kWorkloads[workload], threads);
        for (std::size_t i = 0; i < arms.size(); ++i) std::printf(",\"%s\":%.6f", arms[i]->name, seconds[i]);
        std::printf("}\n");
        std::fflush(stdout);
      }
  return 0;
}

}  // namespace
}  // namespace bench
}  // namespace mortise

int main(int argc, char** argv) {
  unsigned rounds = 5;
  std::size_t calls = 1'000'000;
  std::string only;
  std::vector<unsigned> threads = {1, 2, 4, 8, 16};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--only") only = argv[i + 1];
    else if (option == "--rounds") rounds = static_cast<unsigned>(std::atoi(argv[i + 1]));
    else if (option == "--calls") calls = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--threads") {
      threads.clear();
      for (char* at = argv[i + 1]; *at; at += *at == ',') threads.push_back(static_cast<unsigned>(std::strtoul(at, &at, 10)));
    } else argc = 0;
  }
  if (argc % 2 == 0 || rounds == 0 || calls < 10'000 || std::find(threads.begin(), threads.end(), 0u) != threads.end()) {
    std::fprintf(stderr, "usage: locks [--rounds N] [--threads N,N,...] [--calls N] [--only NAME,NAME,...]; calls at least 10000\n");
    return 2;
  }
  return mortise::bench::all(rounds, threads, calls, only);
}
