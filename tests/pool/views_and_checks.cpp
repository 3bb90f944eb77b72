// If this fails, a pool seen as indices, bytes or a memory resource is not the same pool, or a checked pool misses a crime.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mortise/pool.hpp"

namespace mortise {
namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Message {
  std::uint64_t words[8] = {};
  std::uint64_t sum = 0;
};
using Pool = distributed_pool<Message>;

TEST(Views, NameObjectsByIndexAndBytes) {
  Pool pool({.maximum = 4});
  const auto indices = index_view(pool);
  const std::uint32_t i = indices.try_acquire();
  ASSERT_NE(i, indices.kNone);
  indices[i].sum = 9;
  EXPECT_EQ(pool.at(i)->sum, 9u);
  const auto bytes = bytes_view(pool);
  std::byte* const b = bytes.try_acquire();
  EXPECT_TRUE(bytes.owns(b));
  EXPECT_GE(bytes.slot_bytes(), sizeof(Message));
  EXPECT_EQ(pool.statistics().in_use, 2u);
  bytes.release(b);
  indices.release(i);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(Views, AMemoryResourceServesNodesFromThePoolAndTheRestFromUpstream) {
  bytes_pool pool(64, 16, {.maximum = 100});
  pool_resource resource(pool);
  {
    std::pmr::list<int> list(&resource);
    for (int i = 0; i < 150; ++i) list.push_back(i);
    EXPECT_EQ(pool.blocks().statistics().in_use, 100u);
    std::pmr::vector<int> large(1000, &resource);
    int sum = 0;
    for (int i : list) sum += i;
    EXPECT_EQ(sum, 150 * 149 / 2);
  }
  EXPECT_EQ(pool.blocks().statistics().in_use, 0u);
}

TEST(Views, AMemoryResourceHandsOnWhatItsBlocksAreNotAlignedFor) {
  constexpr std::size_t kLarge = 1 << 20;
  bytes_pool pool(kLarge, 65536, {.maximum = 16});
  pool_resource resource(pool);
  for (int i = 0; i < 8; ++i)
    for (std::size_t align = 64; align <= kLarge; align *= 2) {
      void* const p = resource.allocate(1000, align);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0u) << align;
      resource.deallocate(p, 1000, align);
    }
}

std::atomic<int> in_hook{0};
std::atomic<bool> leaves_hook{false};

/// Its end takes long, and is seen.
struct Slow : kept_constructed<int> {
  int* make(void* at) noexcept { return ::new (at) int{7}; }
  void destroy(int& n) noexcept {
    if (n != 7) _exit(1);
    n = 0;
    ++in_hook;
    while (!leaves_hook) sched_yield();
  }
};

TEST(Fork, AChildDestroysNothingThatIsBeingDestroyed) {
  distributed_pool<int, Slow> pool{{.maximum = 8, .prefill = 4}};
  std::thread trimmer([&] { pool.trim(0); });
  while (!in_hook) sched_yield();
  const pid_t child = fork();
  if (child == 0) {
    leaves_hook = true;
    pool.trim(0);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  leaves_hook = true;
  trimmer.join();
  EXPECT_EQ(status, 0);
}

TEST(Options, SizesAndAlignmentsOfAllKindsAreServed) {
  for (const std::size_t bytes : {1u, 8u, 24u, 40u, 100u, 4000u, 65536u, 100001u}) {
    for (const std::size_t align : {1u, 8u, 64u, 4096u, 65536u}) {
      for (const bool padded : {false, true}) {
        bytes_pool pool(bytes, align, {.maximum = 70, .padded = padded});
        ASSERT_TRUE(pool) << bytes << " " << align;
        const auto view = bytes_view(pool);
        std::set<std::byte*> all;
        while (std::byte* p = view.try_acquire()) {
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0u);
          p[0] = p[bytes - 1] = std::byte{1};
          all.insert(p);
        }
        ASSERT_EQ(all.size(), 70u);
        for (auto i = all.begin(), j = std::next(i); j != all.end(); ++i, ++j)
          ASSERT_GE(*j - *i, static_cast<long>(bytes));
        for (std::byte* p : all) {
          EXPECT_EQ(pool.blocks().slots().at(pool.blocks().slots().index_of(p)), p);
          view.release(p);
        }
        EXPECT_EQ(pool.blocks().statistics().idle, 70u);
      }
    }
  }
}

TEST(Options, PrefillTouchesAllOfWhatItMakes) {
  struct Large {
    std::byte bytes[5000 * 13];
  };
  constexpr unsigned kObjects = 20;
  distributed_pool<Large> pool({.maximum = 100, .prefill = kObjects});
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const first = reinterpret_cast<std::byte*>(round_down(reinterpret_cast<std::uintptr_t>(pool.at(0)), page));
  const std::size_t pages = (reinterpret_cast<std::byte*>(pool.at(kObjects)) - first) / page;
  std::vector<unsigned char> resident(pages);
  ASSERT_EQ(mincore(first, pages * page, resident.data()), 0);
  EXPECT_EQ(std::count(resident.begin(), resident.end(), 1), static_cast<long>(pages));
}

/// How many pages of control the kernel wipes in children.
std::size_t wiped_pages() {
  std::ifstream maps("/proc/self/smaps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.starts_with("VmFlags:") && line.find(" wf") != std::string::npos;
  return n;
}

TEST(Options, WhereThereAreTooManyMappingsThereIsNoPoolThatAChildWouldNotHeal) {
  const std::size_t before = wiped_pages();
  std::vector<void*> others;
  others.reserve(1 << 20);
  const auto map_one = [&] {
    void* const one = mmap(nullptr, 4096, others.size() % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (one != MAP_FAILED) others.push_back(one);
    return one != MAP_FAILED && others.size() < others.capacity();
  };
  while (map_one()) {
  }
  std::size_t made = 0;
  alignas(Pool) std::byte rooms[8][sizeof(Pool)];
  Pool* pools[8];
  for (int i = 0; i < 8; ++i) {
    pools[i] = new (rooms[i]) Pool({.maximum = 10});
    made += static_cast<bool>(*pools[i]);
    if (!*pools[i] && !others.empty()) munmap(others.back(), 4096), others.pop_back();
  }
  for (void* one : others) munmap(one, 4096);
  EXPECT_GT(made, 0u);
  EXPECT_EQ(wiped_pages() - before, made);
  for (Pool* pool : pools) pool->~Pool();
}

TEST(Options, NonsenseIsAPoolThatAlwaysFails) {
  Pool none({});
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.try_acquire());
  EXPECT_FALSE(none.acquire_for(kMs));
  EXPECT_EQ(none.trim(), 0u);
  EXPECT_EQ(none.statistics().maximum, 0u);
  bytes_pool large(std::size_t{1} << 50, 8, {.maximum = 1u << 30});
  EXPECT_FALSE(large);
}

std::vector<std::string> faults;
using Checked = distributed_pool<Message, constructed_each_time<Message>, checked_pool>;

TEST(CheckedPool, FindsDoubleAndForeignReturnsAndLeaks) {
  faults.clear();
  const pool_options options{
      .maximum = 8, .name = "messages", .on_fault = [](const char* line) { faults.push_back(line); }};
  Checked pool(options);
  Message* const a = pool.acquire_raw();
  Message* const b = pool.acquire_raw();
  pool.release(a);
  pool.release(a);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_NE(faults[0].find("mortise[pool messages] fault=double_return"), std::string::npos) << faults[0];
  EXPECT_NE(faults[0].find("returned_before_at=program+0x"), std::string::npos) << faults[0];
  const auto word = [&](const char* name) {
    const std::size_t at = faults[0].find(name) + std::string(name).size();
    return faults[0].substr(at, faults[0].find(' ', at) - at);
  };
  EXPECT_NE(word(" returned_at="), word(" returned_before_at=")) << "two places in this function";
  Message other;
  pool.release(&other);
  pool.release(reinterpret_cast<Message*>(reinterpret_cast<std::byte*>(b) + 8));
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_NE(faults[1].find("fault=foreign_return"), std::string::npos);
  std::vector<std::string> leaks;
  EXPECT_EQ(pool.report_leaks([&](const char* line) { leaks.push_back(line); }), 1u);
  EXPECT_NE(leaks[0].find("fault=leak"), std::string::npos);
  EXPECT_NE(leaks[0].find("acquired_at=program+0x"), std::string::npos) << leaks[0];
  pool.release(b);
  EXPECT_EQ(pool.report_leaks([](const char*) {}), 0u);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(CheckedPool, TellsALineThatEndsHoweverLongItsNameIs) {
  static std::size_t length;
  length = 0;
  const std::string name(5000, 'n');
  Checked pool({.maximum = 8, .name = name.c_str(), .on_fault = [](const char* line) { length = std::string(line).size(); }});
  Message* const a = pool.acquire_raw();
  pool.release(a);
  pool.release(a);
  EXPECT_GT(length, 1000u);
  EXPECT_LT(length, 1024u);
}

/// In a process of its own, for the limit.
[[noreturn]] void make_until_refused() {
  const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
  setrlimit(RLIMIT_AS, &limit);
  bool wrong = false, refused = false;
  for (std::uint32_t maximum = 1'000'000; maximum < 50'000'000; maximum += maximum / 16) {
    distributed_pool<char, constructed_each_time<char>, checked_pool> pool(
        {.maximum = maximum, .prefill = 1, .padded = false});
    const bool works = static_cast<bool>(pool);
    wrong |= works != static_cast<bool>(pool.try_acquire('a'));
    if (!works) wrong |= pool.maximum() || pool.trim() || pool.prefill(3);
    refused |= !works;
  }
  _exit(wrong ? 1 : refused ? 0 : 2);
}
TEST(CheckedPool, WithoutMemoryForItsRecordsIsAPoolThatAlwaysFails) {
  EXPECT_EXIT(make_until_refused(), testing::ExitedWithCode(0), "") << "1: one that is none gave an object; 2: none was refused";
}

TEST(CheckedPoolDeathTest, WithoutACallbackAFaultIsOneLineAndTheEnd) {
  Checked pool({.maximum = 8, .name = "messages"});
  Message* const a = pool.acquire_raw();
  pool.release(a);
  EXPECT_DEATH(
      pool.release(a),
      "mortise\\[pool messages\\] fault=double_return ptr=0x.*hint=\"return each object once; look for two owners\"");
}

}  // namespace
}  // namespace mortise
