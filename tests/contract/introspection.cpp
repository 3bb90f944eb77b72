// Should mallinfo2 and its like answer for another allocator, or for nobody, monitoring would show a fiction.
#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "contract.hpp"

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::size_t resident() {
  long pages = 0, skipped = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  const int read = fscanf(f, "%ld %ld", &skipped, &pages);
  fclose(f);
  return read == 2 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

std::size_t live() {
  const struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

TEST(Introspection, LiveBytesFollowSmallBlocks) {
  std::vector<void*> held(100000);
  const std::size_t before = live();
  for (void*& p : held) p = malloc(100);
  const std::size_t full = live();
  EXPECT_GE(full - before, 100 * held.size());
  EXPECT_LE(full - before, 200 * held.size());
  for (void* p : held) free(p);
  const std::size_t after = live();
  EXPECT_LE(after, before + kMiB);
}

TEST(Introspection, LargeBlocksAreCountedOnce) {
  const struct mallinfo2 before = mallinfo2();
  const std::size_t live_before = live();
  void* p = malloc(32 * kMiB);
  const struct mallinfo2 with = mallinfo2();
  EXPECT_GE(live(), live_before + 32 * kMiB);
  EXPECT_LE(live(), live_before + 33 * kMiB);
  EXPECT_GE(with.arena + with.hblkhd, 32 * kMiB);
  if (with.hblks != before.hblks) {  // a heap that keeps large blocks apart says so in both fields
    EXPECT_EQ(with.hblks, before.hblks + 1);
    EXPECT_GE(with.hblkhd, before.hblkhd + 32 * kMiB);
  }
  free(p);
  EXPECT_EQ(mallinfo2().hblks, before.hblks);
  EXPECT_EQ(mallinfo2().hblkhd, before.hblkhd);
  EXPECT_LE(live(), live_before + 65536);
}

TEST(Introspection, TheOldFormSaysTheSameInInts) {
  void* p = malloc(5 * kMiB);
  const struct mallinfo2 wide = mallinfo2();
  const struct mallinfo narrow = mallinfo();
  EXPECT_EQ(static_cast<std::size_t>(narrow.hblks), wide.hblks);
  EXPECT_EQ(static_cast<std::size_t>(narrow.hblkhd), wide.hblkhd);
  EXPECT_NEAR(narrow.uordblks, static_cast<double>(wide.uordblks), 65536);
  free(p);
}

TEST(Introspection, TrimGivesResidentMemoryBack) {
  for (const std::size_t size : {std::size_t{200}, std::size_t{30000}, 4 * kMiB}) {
    std::vector<void*> held(64 * kMiB / size);
    for (void*& p : held) memset(p = malloc(size), 1, size);
    const std::size_t full = resident();
    for (void* p : held) free(p);
    malloc_trim(0);
    EXPECT_LT(resident(), full - 48 * kMiB) << size;
  }
}

TEST(Introspection, MallocInfoWritesXmlAboutThisHeap) {
  void* p = malloc(16 * kMiB);
  char* text = nullptr;
  std::size_t length = 0;
  FILE* out = open_memstream(&text, &length);
  EXPECT_EQ(malloc_info(0, out), 0);
  fclose(out);
  const std::string xml(text, length);
  free(text);
  EXPECT_EQ(xml.find("<malloc version=\"mortise-"), 0u) << xml;
  EXPECT_NE(xml.find("</malloc>"), std::string::npos) << xml;
  unsigned long mapped = 0, in_use = 0;
  const auto system = xml.find("<system type=\"current\""), live_at = xml.find("<live ");
  ASSERT_TRUE(system != std::string::npos && live_at != std::string::npos) << xml;
  EXPECT_EQ(sscanf(xml.c_str() + system, "<system type=\"current\" size=\"%lu\"", &mapped), 1);
  EXPECT_EQ(sscanf(xml.c_str() + live_at, "<live size=\"%lu\"", &in_use), 1);
  EXPECT_GE(in_use, 16 * kMiB);
  EXPECT_GE(mapped, in_use);
  errno = 0;
  EXPECT_EQ(malloc_info(1, stdout), EINVAL);
  free(p);
}

TEST(Introspection, MallocStatsWritesToStandardError) {
  testing::internal::CaptureStderr();
  malloc_stats();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("mortise["), std::string::npos) << text;
  EXPECT_NE(text.find("live bytes"), std::string::npos) << text;
}

TEST(Introspection, MalloptTakesLibcsParameters) {
  EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
  EXPECT_EQ(mallopt(M_ARENA_MAX, 1), 1);
  EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 128 << 10), 1);
  EXPECT_EQ(mallopt(M_TOP_PAD, 0), 1);
  EXPECT_EQ(mallopt(M_PERTURB, 0), 1);
  EXPECT_EQ(mallopt(12345, 1), 0);
}

/// Counters are read while others change: they may lag, they may not be nonsense.
TEST(Introspection, NumbersStaySaneWhileThreadsAllocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!stop) {
        void* held[200];
        for (void*& p : held) p = malloc(3000);
        for (void* p : held) free(p);
      }
    });
  for (int i = 0; i < 2000; ++i) {
    const struct mallinfo2 m = mallinfo2();
    ASSERT_LT(m.uordblks, std::size_t{1} << 32);
    ASSERT_LT(m.fordblks, std::size_t{1} << 32);
    ASSERT_LT(m.arena, std::size_t{1} << 32);
  }
  stop = true;
  for (auto& t : threads) t.join();
}

/// A reader that took blocks between two layers for freed, or for two, would show a busy server's memory wrong.
TEST(Introspection, LiveBytesAreThoseOfTheThreadsWhileTheyExchangeBlocks) {
  constexpr std::size_t kThreads = 4, kBlocks = 5000, kBytes = 2000, kReadings = 101;
  static void* held[kThreads][kBlocks];
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> ready{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (void*& p : held[t]) p = malloc(kBytes);
      ++ready;
      for (std::size_t i = 0; !stop; i = (i + 7) % kBlocks) {
        free(held[t][i]);
        held[t][i] = malloc(kBytes);
      }
    });
  while (ready < kThreads) std::this_thread::yield();
  std::vector<std::size_t> readings(kReadings);
  for (std::size_t& live : readings) live = mallinfo2().uordblks;
  stop = true;
  for (std::thread& t : threads) t.join();
  const std::size_t at_rest = mallinfo2().uordblks;
  std::sort(readings.begin(), readings.end());
  const auto off = [&](std::size_t live) { return live > at_rest ? live - at_rest : at_rest - live; };
  EXPECT_LE(off(readings[kReadings / 2]), at_rest / 100) << "the median";
  EXPECT_LE(off(readings.front()), at_rest / 10);
  EXPECT_LE(off(readings.back()), at_rest / 10);
  for (auto& of_thread : held)
    for (void* p : of_thread) free(p);
}

/// What a block takes beside what its user may write, where that is the same for all.
constexpr std::size_t kVaries = ~std::size_t{0};
std::size_t tag_bytes() {
  std::size_t tag[2];
  for (int i = 0; i < 2; ++i) {
    const std::size_t before = live();
    void* p = malloc(i ? 1000 : 100);
    tag[i] = live() - before - malloc_usable_size(p);
    free(p);
  }
  const bool is_tag = tag[0] == tag[1] && (tag[0] == 0 || tag[0] == 8);
  return is_tag ? tag[0] : kVaries;
}

/// Exact when read: once the threads rest, wherever blocks went through meanwhile - other threads' hands, caches, batches, quarantines -
/// what is live is what the program holds, to the byte.
TEST(Introspection, LiveBytesAreExactWhenThreadsRest) {
  constexpr std::size_t kThreads = 4, kSlots = 4000, kSteps = 100'000;
  static std::atomic<void*> slot[kSlots];
  std::atomic<std::size_t> started{0}, done{0};
  std::atomic<bool> go{false}, leave{false};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      free(malloc(100));
      ++started;
      while (!go) std::this_thread::yield();
      std::uint64_t random = 88172645463325252u + t;
      for (std::size_t i = 0; i < kSteps; ++i) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const std::size_t bytes = random % 64 == 0 ? 5000 + random % 60'000 : 1 + random % 1500;
        free(slot[random / 64 % kSlots].exchange(malloc(bytes)));  // more often than not another thread's
      }
      ++done;
      while (!leave) std::this_thread::yield();
    });
  while (started < kThreads) std::this_thread::yield();
  const std::size_t before = live();
  go = true;
  while (done < kThreads) std::this_thread::yield();
  const std::size_t held = live() - before;
  std::size_t usable = 0;
  for (auto& one : slot) usable += malloc_usable_size(one.load());
  const char* const library = getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "";
  // What other threads released into pools of call chains is live until these look at it; the block that sampled guards lie in is counted
  // without its own guard's page.
  const std::size_t off = strstr(library, "affinity") ? kMiB / 2 : strstr(library, "hardened") ? 4096 : 0;
  if (off == 0 && tag_bytes() != kVaries) {
    EXPECT_EQ(held, usable + kSlots * tag_bytes());
  }
  for (auto& one : slot) free(one.exchange(nullptr));
  EXPECT_LE(live() - before, off);
  leave = true;
  for (std::thread& t : threads) t.join();
}

}  // namespace
