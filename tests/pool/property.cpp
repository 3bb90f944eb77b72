// If this fails, a pool gives other objects, or tells other numbers, than a list of what is in use would: one call after the other, each
// by any of four threads, each followed by a comparison with such a list.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mortise/pool.hpp"

namespace mortise {
namespace {

/// Does what it is told, on a CPU of its own as long as there are enough.
class Worker {
 public:
  explicit Worker(unsigned number) : thread_([this, number] { serve(number); }) {}
  ~Worker() {
    tell({});
    thread_.join();
  }
  void run(const std::function<void()>& work) {
    tell([&] { work(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !told_; });
  }

 private:
  void tell(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work), told_ = true;
    changed_.notify_all();
  }
  void serve(unsigned number) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (unsigned cpu = 0, want = number % static_cast<unsigned>(CPU_COUNT(&all)); cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &all) && want-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return told_; });
      if (!work_) return;
      work_();
      told_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool told_ = false;
  std::thread thread_;
};

constexpr std::uint64_t kAlive = 0x6d6f727469736521;
struct Object {
  std::uint64_t alive = kAlive, owner = 0;
};
struct Counts {
  std::uint32_t alive = 0, wrong = 0;
};
struct Kept : kept_constructed<Object> {
  Counts* counts;
  explicit Kept(Counts* c) : counts(c) {}
  Object* make(void* at) noexcept {
    ++counts->alive;
    return ::new (at) Object;
  }
  void reset(Object& o) noexcept { o.owner = 0; }
  void destroy(Object& o) noexcept {
    counts->wrong += o.alive != kAlive || o.owner;
    o.alive = 0;
    --counts->alive;
  }
};
struct EachTime : constructed_each_time<Object> {
  Counts* counts;
  explicit EachTime(Counts* c) : counts(c) {}
  Object* make(void* at) noexcept {
    ++counts->alive;
    return ::new (at) Object;
  }
  void destroy(Object& o) noexcept {
    counts->wrong += o.alive != kAlive;
    --counts->alive;
  }
};

template <class Life>
class Run {
 public:
  Run(pool_front front, std::uint32_t maximum, std::uint32_t seed)
      : pool_({.maximum = maximum, .front = front}, Life(&counts_)), maximum_(maximum), random_(seed) {}

  void perform(Worker& worker) {
    worker.run([this] {
      const unsigned n = 1 + random_() % 70;
      switch (random_() % 12) {
        case 0: return trim();
        case 1: return prefill(random_() % (maximum_ + 2));
        case 2: return fork_one();
        case 3: case 4: case 5: case 6: case 7: return acquire(n);
        default: return release(n);
      }
    });
    audit();
  }
  void end() {
    release(maximum_);
    audit();
    pool_.trim();
    EXPECT_EQ(counts_.alive, 0u);
  }

 private:
  void acquire(unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      Object* const o = random_() % 8 ? pool_.acquire_raw() : pool_.acquire_raw_for(0);
      ASSERT_EQ(o != nullptr, held_.size() < maximum_);
      if (!o) return;
      ASSERT_EQ(o->alive, kAlive);
      ASSERT_EQ(o->owner, 0u) << "somebody has it";
      o->owner = ++owners_;
      held_.push_back({o, owners_});
      peak_ = std::max(peak_, held_.size());
    }
  }
  void release(unsigned n) {
    std::shuffle(held_.begin(), held_.end(), random_);
    for (; n-- && !held_.empty(); held_.pop_back()) {
      EXPECT_EQ(held_.back().object->owner, held_.back().owner);
      pool_.release(held_.back().object);
    }
  }
  void trim() {
    const auto keep = random_() % 2 ? 0 : random_() % (maximum_ + 1), idle = pool_.statistics().idle;
    pool_.trim(keep);
    if (Life::kKeeps) idle_ = std::min<std::uint32_t>(keep, idle);
    EXPECT_EQ(pool_.statistics().idle, Life::kKeeps ? idle_ : idle);
  }
  void prefill(std::uint32_t n) {
    const pool_statistics s = pool_.statistics();
    EXPECT_EQ(pool_.prefill(n), std::max(s.created - s.bare, std::min(n, maximum_)));
  }
  /// A child has the same pool.
  void fork_one() {
    const pid_t child = fork();
    if (child == 0) {
      while (pool_.acquire_raw()) held_.push_back({});
      _exit(held_.size() == maximum_ ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "the child of a fork found another number of objects";
  }
  void audit() {
    const pool_statistics s = pool_.statistics();
    EXPECT_EQ(s.in_use, held_.size());
    EXPECT_EQ(s.in_use + s.idle + s.bare, s.created);
    EXPECT_LE(s.created, maximum_);
    EXPECT_GE(s.high_water, peak_);
    EXPECT_LE(s.high_water, peak_ + s.capacity_slack);
    EXPECT_EQ(counts_.alive, Life::kKeeps ? s.idle + s.in_use : s.in_use);
    EXPECT_EQ(counts_.wrong, 0u);
  }

  struct Owned {
    Object* object = nullptr;
    std::uint64_t owner = 0;
  };
  Counts counts_;
  distributed_pool<Object, Life> pool_;
  std::uint32_t maximum_, idle_ = 0;
  std::mt19937 random_;
  std::vector<Owned> held_;
  std::size_t peak_ = 0;
  std::uint64_t owners_ = 0;
};

template <class Life>
void compare(pool_front front) {
  Worker workers[] = {Worker(0), Worker(1), Worker(2), Worker(3)};
  std::random_device device;
  for (const std::uint32_t maximum : {1u, 3u, 40u, 300u, 2000u}) {
    const std::uint32_t seed = device();
    const testing::ScopedTrace trace(__FILE__, __LINE__, "maximum " + std::to_string(maximum) + ", seed " + std::to_string(seed));
    Run<Life> run(front, maximum, seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) run.perform(workers[random() % 4]);
    run.end();
    if (testing::Test::HasFailure()) return;
  }
}

class Fronts : public testing::TestWithParam<pool_front> {};
std::string name_of_front(const testing::TestParamInfo<pool_front>& front) {
  const char* const names[] = {"automatic", "cores", "threads", "cpus", "none"};
  return names[static_cast<int>(front.param)];
}
INSTANTIATE_TEST_SUITE_P(Every, Fronts,
                         testing::Values(pool_front::automatic, pool_front::threads, pool_front::cpus, pool_front::none), name_of_front);

TEST_P(Fronts, ObjectsThatAreKept) { compare<Kept>(GetParam()); }
TEST_P(Fronts, ObjectsThatAreConstructedEachTime) { compare<EachTime>(GetParam()); }

/// Looks at the pool while it is trimmed: once half of what goes is gone, with another thread that uses one object.
struct Watched : kept_constructed<Object> {
  std::function<void()> look;
  unsigned left = 0;
  void destroy(Object&) noexcept {
    if (left && --left == 0) look();
  }
};

TEST_P(Fronts, CountTheSameAmidATrim) {
  distributed_pool<Object, Watched> pool({.maximum = 4000, .prefill = 3000, .front = GetParam()});
  const auto most = pool.statistics().high_water;
  pool_statistics amid;
  pool.hooks().look = [&] {
    std::thread([&] {
      Object* const one = pool.acquire_raw();
      amid = pool.statistics();
      pool.release(one);
    }).join();
  };
  pool.hooks().left = 1500;
  pool.trim();
  EXPECT_EQ(amid.in_use, 1u);
  EXPECT_EQ(amid.in_use + amid.idle + amid.bare, amid.created);
  EXPECT_LE(pool.statistics().high_water, std::max(most, 1 + pool.capacity_slack()));
}

}  // namespace
}  // namespace mortise
