// What tests of all pools have in common: threads that would notice a second owner, and pairs that hand objects over.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mortise/sync/atomics.hpp"

namespace mortise::test {

/// `threads` threads acquire, write, check and release; each holds up to four objects at a time. Returns how often an
/// object held something else than its owner had written. `Pool` has try_acquire and release, its objects `words` and
/// `sum`.
template <class Pool>
std::uint64_t race(Pool& pool, unsigned threads, unsigned rounds) {
  std::atomic<std::uint64_t> errors{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&pool, &errors, t, rounds] {
      std::uint64_t state = 88172645463325252u * (t + 1) | 1, wrong = 0;
      using Object = typename Pool::value_type;
      for (unsigned i = 0; i < rounds; ++i) {
        Object* held[4] = {};
        std::uint64_t sums[4] = {};
        for (unsigned k = 0; k <= i % 4; ++k) {
          if (!(held[k] = pool.try_acquire())) continue;
          for (auto& word : held[k]->words) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            word = state;
            sums[k] += state;
          }
          held[k]->sum = sums[k];
        }
        if (i % 64 == t % 64) std::this_thread::yield();
        for (unsigned k = 0; k < 4; ++k) {
          if (!held[k]) continue;
          std::uint64_t sum = 0;
          for (const auto word : held[k]->words) sum += word;
          wrong += sum != sums[k] || held[k]->sum != sums[k];
          pool.release(held[k]);
        }
      }
      errors += wrong;
    });
  }
  for (auto& thread : all) thread.join();
  return errors;
}

/// While it lives, one thread moves the calling process's other threads between CPUs and another one preempts them,
/// with real-time priority where that is allowed.
class Antagonists {
 public:
  Antagonists() : moves_([this] { move(); }), preempts_([this] { preempt(); }) {}
  ~Antagonists() {
    stop_ = true;
    moves_.join(), preempts_.join();
  }

 private:
  void move() {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    for (unsigned i = 0; !stop_; ++i) {
      cpu_set_t one;
      CPU_ZERO(&one);
      for (unsigned cpu = 0, want = i % static_cast<unsigned>(CPU_COUNT(&all)); cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &all) && want-- == 0) CPU_SET(cpu, &one);
      const std::filesystem::directory_iterator tasks("/proc/self/task");
      for (const auto& task : tasks)
        if (std::hash<std::string>{}(task.path().string()) % 3 == i % 3)
          sched_setaffinity(std::stoi(task.path().filename().string()), sizeof one, &one);
      usleep(300);
    }
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    for (const auto& task : tasks) sched_setaffinity(std::stoi(task.path().filename().string()), sizeof all, &all);
  }
  void preempt() {
    const sched_param high{1};
    pthread_setschedparam(pthread_self(), SCHED_RR, &high);
    while (!stop_) {
      for (int i = 0; i < 2000; ++i) cpu_relax();
      usleep(50);
    }
  }
  std::atomic<bool> stop_{false};
  std::thread moves_, preempts_;
};

/// `pairs` pairs of threads: one only acquires, the other only releases, with `in_flight` objects between them in all. Returns
/// how often an object had been handed out to somebody else before it was released.
template <class Pool>
std::uint64_t hand_over(Pool& pool, unsigned pairs, unsigned in_flight, unsigned rounds) {
  using Object = typename Pool::value_type;
  struct Ring {
    std::atomic<unsigned> head{0}, tail{0};
    std::vector<std::atomic<Object*>> slot;
    explicit Ring(unsigned n) : slot(n) {}
  };
  const unsigned depth = in_flight / pairs;
  std::vector<std::unique_ptr<Ring>> rings;
  std::atomic<std::uint64_t> errors{0};
  std::vector<std::thread> all;
  for (unsigned p = 0; p < pairs; ++p) {
    Ring& ring = *rings.emplace_back(std::make_unique<Ring>(depth));
    all.emplace_back([&pool, &ring, depth, rounds, p] {
      for (unsigned i = 0; i < rounds; ++i) {
        Object* object;
        while (!(object = pool.try_acquire())) std::this_thread::yield();
        object->sum = std::uint64_t{p} << 32 | i;
        while (i - ring.tail.load(std::memory_order_acquire) >= depth) std::this_thread::yield();
        ring.slot[i % depth].store(object, std::memory_order_relaxed);
        ring.head.store(i + 1, std::memory_order_release);
      }
    });
    all.emplace_back([&pool, &ring, &errors, depth, rounds, p] {
      for (unsigned i = 0; i < rounds; ++i) {
        while (ring.head.load(std::memory_order_acquire) <= i) std::this_thread::yield();
        Object* const object = ring.slot[i % depth].load(std::memory_order_relaxed);
        ring.tail.store(i + 1, std::memory_order_release);
        errors += object->sum != (std::uint64_t{p} << 32 | i);
        pool.release(object);
      }
    });
  }
  for (auto& thread : all) thread.join();
  return errors;
}

}  // namespace mortise::test
