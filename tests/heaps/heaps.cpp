// If this failed, a heap would lose memory, give it twice, or take the program with it when it goes: what users of other
// allocators report of heaps that were destroyed while threads still knew them.
#include "mortise/heap.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kMiB = 1 << 20;

struct Heap {
  explicit Heap(mo_heap_options options = {}) : h(mo_heap_create(&options)) {}
  ~Heap() { mo_heap_destroy(h); }
  operator mo_heap*() const { return h; }
  mo_heap* release() { return std::exchange(h, nullptr); }
  mo_heap_stats stats() const {
    mo_heap_stats s;
    mo_heap_get_stats(h, &s);
    return s;
  }
  mo_heap* h;
};

void fill(void* p, std::size_t n, unsigned mark) { memset(p, static_cast<int>(mark & 255), n); }
bool is_filled(const void* p, std::size_t n, unsigned mark) {
  const auto* c = static_cast<const unsigned char*>(p);
  for (std::size_t i = 0; i < n; ++i)
    if (c[i] != (mark & 255)) return false;
  return true;
}

TEST(Heaps, BlocksOfEverySizeKeepWhatIsWritten) {
  Heap heap;
  struct Held {
    void* p;
    std::size_t n;
    unsigned mark;
  };
  std::vector<Held> held;
  unsigned seed = 1;
  for (unsigned i = 0; i < 20'000; ++i) {
    seed = seed * 1103515245 + 12345;
    const std::size_t n = i % 500 == 0 ? 300'000 + seed % kMiB : 1 + (seed >> 8) % 2000;
    void* p = mo_heap_alloc(heap, n);
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16, 0u);
    ASSERT_GE(mo_heap_usable_size(heap, p), n);
    ASSERT_EQ(mo_heap_of(p), heap.h);
    fill(p, n, i);
    held.push_back({p, n, i});
    if (i % 3 == 0) {
      const std::size_t victim = seed % held.size();
      ASSERT_TRUE(is_filled(held[victim].p, held[victim].n, held[victim].mark));
      if (i % 2) mo_heap_free(heap, held[victim].p);
      else mo_free(held[victim].p);
      held[victim] = held.back();
      held.pop_back();
    }
  }
  for (const Held& b : held) ASSERT_TRUE(is_filled(b.p, b.n, b.mark));
}

TEST(Heaps, ZeroedAlignedAndResized) {
  Heap heap;
  for (std::size_t n : {1ul, 100ul, 5000ul, 400'000ul}) {
    void* dirty = mo_heap_alloc(heap, n);
    fill(dirty, n, 7);
    mo_heap_free(heap, dirty);
    void* p = mo_heap_alloc_zeroed(heap, 1, n);
    EXPECT_TRUE(is_filled(p, n, 0));
  }
  for (std::size_t align = 1; align <= kMiB; align *= 2) {
    void* p = mo_heap_alloc_aligned(heap, align, 100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % align, 0u);
    mo_heap_free(heap, p);
  }
  errno = 0;
  EXPECT_EQ(mo_heap_alloc_aligned(heap, 3, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mo_heap_alloc_zeroed(heap, SIZE_MAX, 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(mo_heap_alloc(heap, SIZE_MAX), nullptr);
  char* p = static_cast<char*>(mo_heap_alloc(heap, 10));
  strcpy(p, "stays");
  for (std::size_t n : {100ul, 10'000ul, 1'000'000ul, 3'000'000ul, 500'000ul, 6ul}) {
    p = static_cast<char*>(mo_heap_realloc(heap, p, n));
    ASSERT_STREQ(p, "stays");
  }
}

TEST(Heaps, DestroyGivesEverythingBackWhateverIsInIt) {
  Heap other;
  void* survivor = mo_heap_alloc(other, 100);
  fill(survivor, 100, 3);
  std::size_t mapped = 0;
  for (int round = 0; round < 50; ++round) {
    Heap heap;
    for (int i = 0; i < 10'000; ++i) fill(mo_heap_alloc(heap, 100), 100, 9);
    for (int i = 0; i < 5; ++i) fill(mo_heap_alloc(heap, kMiB), kMiB, 9);
    const mo_heap_stats s = heap.stats();
    EXPECT_GE(s.live_bytes, 10'000u * 100 + 5 * kMiB);
    if (round == 0) mapped = s.mapped_bytes;
    EXPECT_EQ(s.mapped_bytes, mapped) << "each heap takes what the last one gave";
  }
  EXPECT_TRUE(is_filled(survivor, 100, 3));
}

TEST(Heaps, StatisticsAreExact) {
  Heap heap({.name = "mine", .limit = 0, .parent = nullptr, .memory = nullptr, .bytes = 0});
  std::vector<void*> small(1000);
  for (void*& p : small) p = mo_heap_alloc(heap, 112);
  void* large = mo_heap_alloc(heap, 3 * kMiB);
  mo_heap_stats s = heap.stats();
  EXPECT_EQ(s.live_bytes, 1000u * 112 + 3 * kMiB);
  EXPECT_EQ(s.large_bytes, 3 * kMiB);
  EXPECT_EQ(s.large_blocks, 1u);
  for (int i = 0; i < 400; ++i) mo_heap_free(heap, small[static_cast<std::size_t>(i)]);
  mo_heap_free(heap, large);
  s = heap.stats();
  EXPECT_EQ(s.live_bytes, 600u * 112);
  EXPECT_EQ(s.large_blocks, 0u);
  std::string text(1 << 20, 0);
  text.resize(mo_heap_stats_json(heap, text.data(), text.size()));
  EXPECT_NE(text.find("\"name\": \"mine\""), std::string::npos);
  EXPECT_NE(text.find("\"block_bytes\": 112,\"live_blocks\": 600,"), std::string::npos) << text;
  for (std::size_t i = 400; i < small.size(); ++i) mo_heap_free(heap, small[i]);
  mo_heap_trim(heap);
  EXPECT_EQ(heap.stats().mapped_bytes, 0u);
}

TEST(Heaps, ALimitIsMetWithinTwoPercentAndWhatIsFreedCanBeHadAgain) {
  for (std::size_t n : {24ul, 1000ul, 60'000ul, 1'000'000ul}) {
    Heap heap({.name = nullptr, .limit = 100'000'000, .parent = nullptr, .memory = nullptr, .bytes = 0});
    std::vector<void*> held;
    errno = 0;
    while (void* p = mo_heap_alloc(heap, n)) held.push_back(p);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_LE(heap.stats().live_bytes, 100'000'000u);
    EXPECT_GE(heap.stats().live_bytes, 98'000'000u - (n > 900'000 ? n : 0)) << n;
    EXPECT_GT(heap.stats().refused, 0u);
    for (std::size_t i = 0; i < held.size() / 2; ++i) mo_heap_free(heap, held[i]);
    EXPECT_NE(mo_heap_alloc(heap, n), nullptr);
    mo_heap_set_limit(heap, 0);
    for (int i = 0; i < 1000; ++i) ASSERT_NE(mo_heap_alloc(heap, n), nullptr);
  }
}

TEST(Heaps, HeapsWithinHeapsShareTheLimitAndTheEnd) {
  auto* outer = mo_heap_create(nullptr);
  mo_heap_set_limit(outer, 10 * kMiB);
  mo_heap_options options{};
  options.parent = outer;
  mo_heap* inner = mo_heap_create(&options);
  options.parent = inner;
  mo_heap* innermost = mo_heap_create(&options);
  std::size_t blocks = 0;
  while (mo_heap_alloc(blocks % 2 ? innermost : inner, kMiB / 2)) ++blocks;
  EXPECT_EQ(blocks, 20u);
  EXPECT_EQ(mo_heap_alloc(outer, kMiB / 2), nullptr);
  mo_heap_destroy(innermost);
  EXPECT_NE(mo_heap_alloc(outer, kMiB / 2), nullptr);
  mo_heap_stats s;
  mo_heap_get_stats(outer, &s);
  EXPECT_EQ(s.live_bytes, kMiB / 2) << "what heaps within hold is theirs";
  mo_heap_destroy(outer);
  Heap after;
  EXPECT_NE(mo_heap_alloc(after, kMiB), nullptr);
}

TEST(Heaps, TheyLiveInMemoryOfTheProgram) {
  std::vector<char> memory(kMiB);
  Heap arena({.name = "arena", .limit = 0, .parent = nullptr, .memory = memory.data() + 1, .bytes = memory.size() - 1});
  ASSERT_NE(arena.h, nullptr);
  std::set<char*> seen;
  std::size_t bytes = 0;
  while (auto* p = static_cast<char*>(mo_heap_alloc(arena, 1000))) {
    ASSERT_GE(p, memory.data());
    ASSERT_LE(p + 1000, memory.data() + memory.size());
    fill(p, 1000, 5);
    ASSERT_TRUE(seen.insert(p).second);
    bytes += 1000;
  }
  EXPECT_GE(bytes, kMiB * 9 / 10);
  for (char* p : seen) mo_heap_free(arena, p);
  EXPECT_NE(mo_heap_alloc(arena, kMiB * 8 / 10), nullptr) << "neighbours merge";
  EXPECT_EQ(mo_heap_of(memory.data() + 5000), nullptr);
  mo_heap_options small{};
  small.memory = memory.data();
  small.bytes = 100;
  errno = 0;
  EXPECT_EQ(mo_heap_create(&small), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Heaps, AnArenaInABlockOfAHeap) {
  Heap outer;
  void* memory = mo_heap_alloc(outer, 256 << 10);
  {
    Heap inner({.name = nullptr, .limit = 0, .parent = nullptr, .memory = memory, .bytes = 256 << 10});
    for (int i = 0; i < 100; ++i) fill(mo_heap_alloc(inner, 500), 500, 1);
  }
  mo_heap_free(outer, memory);
}

TEST(Heaps, WhatOneThreadMadeAnotherFreesAfterItsEnd) {
  Heap heap;
  std::vector<void*> made(20'000);
  std::thread([&] {
    for (void*& p : made) fill(p = mo_heap_alloc(heap, 200), 200, 4);
  }).join();
  std::thread([&] {
    for (std::size_t i = 0; i < made.size() / 2; ++i) mo_heap_free(heap, made[i]);
  }).join();
  for (std::size_t i = made.size() / 2; i < made.size(); ++i) {
    ASSERT_TRUE(is_filled(made[i], 200, 4));
    mo_free(made[i]);
  }
  EXPECT_EQ(heap.stats().live_bytes, 0u);
}

TEST(Heaps, OneIsDestroyedWhileThreadsThatUsedItLiveOnAndUseOthers) {
  constexpr unsigned kThreads = 4, kRounds = 100;
  std::atomic<mo_heap*> current{mo_heap_create(nullptr)};
  std::atomic<unsigned> arrived{0}, round{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Heap own;
      for (unsigned r = 0; r < kRounds; ++r) {
        mo_heap* h = current.load();
        for (int i = 0; i < 200; ++i) {
          void* p = mo_heap_alloc(h, 64 + t);
          fill(p, 64 + t, t);
          void* q = mo_heap_alloc(own, 64);
          fill(q, 64, t);
          if (i % 2) mo_heap_free(h, p);
          mo_heap_free(own, q);
        }
        if (++arrived == kThreads) {  // the last one in ends it: the others keep running, they only know a newer one
          current = mo_heap_create(nullptr);
          mo_heap_destroy(h);
          arrived = 0;
          ++round;
        } else {
          while (round.load() == r) std::this_thread::yield();
        }
      }
    });
  for (std::thread& t : threads) t.join();
  mo_heap_destroy(current);
}

TEST(Heaps, ThreadsShareOneFreelyAndEachOthersBlocks) {
  constexpr unsigned kThreads = 4, kSlots = 512;
  Heap heap;
  std::vector<std::atomic<void*>> slots(kSlots);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      unsigned seed = t + 1;
      for (int i = 0; i < 20'000; ++i) {
        seed = seed * 1103515245 + 12345;
        const std::size_t n = 16 + (seed >> 16) % 700;
        auto* p = static_cast<std::size_t*>(mo_heap_alloc(heap, n));
        *p = n;
        void* old = slots[(seed >> 8) % kSlots].exchange(p);
        if (!old) continue;
        if (*static_cast<std::size_t*>(old) > mo_heap_usable_size(heap, old)) std::abort();
        mo_heap_free(heap, old);
      }
    });
  for (std::thread& t : threads) t.join();
  for (auto& s : slots) mo_heap_free(heap, s.load());
  EXPECT_EQ(heap.stats().live_bytes, 0u);
}

TEST(Heaps, ThreadsMakeAndDestroyThemAtWill) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 100; ++round) {
        Heap heap;
        for (int i = 0; i < 50; ++i) fill(mo_heap_alloc(heap, 1000), 1000, t);
      }
    });
  for (std::thread& t : threads) t.join();
}

constexpr std::size_t kMany = 1000;

TEST(Heaps, HeapsWithinHeapsAsDeepAndAsManyAsOneLikes) {
  mo_heap* deepest = mo_heap_create(nullptr);
  mo_heap* const root = deepest;
  for (std::size_t i = 1; i < kMany; ++i) ASSERT_NE(deepest = Heap({.parent = deepest}).release(), nullptr);
  std::vector<mo_heap*> wide;
  for (std::size_t i = 0; i < kMany; ++i) {
    ASSERT_NE(mo_heap_alloc(wide.emplace_back(Heap({.parent = root}).release()), 100), nullptr);
  }
  for (std::size_t i = 0; i < wide.size(); i += 2) mo_heap_destroy(wide[i]);
  ASSERT_NE(mo_heap_alloc(wide[1], 100), nullptr) << "its neighbours went, it did not";
  void* const block = mo_heap_alloc(deepest, 100);
  EXPECT_EQ(mo_heap_of(block), deepest);
  mo_heap_destroy(root);
  EXPECT_EQ(mo_heap_of(block), nullptr);
}

TEST(Heaps, AForkedChildHasThemAllAndMayDestroyThem) {
  Heap heap;
  void* kept = mo_heap_alloc(heap, 100);
  fill(kept, 100, 8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (!stop) {
        mo_heap_free(heap, mo_heap_alloc(heap, 50'000));
        Heap brief;
        fill(mo_heap_alloc(brief, 100), 100, 1);
      }
    });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      bool ok = is_filled(kept, 100, 8);
      for (int i = 0; i < 1000; ++i) fill(mo_heap_alloc(heap, 300), 300, 2);
      mo_heap_free(heap, kept);
      mo_heap_destroy(heap);
      Heap fresh;
      ok &= mo_heap_alloc(fresh, 100) != nullptr;
      _exit(ok ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(is_filled(kept, 100, 8));
}

TEST(HeapCrimes, AreReportedByName) {
  Heap heap, other;
  void* p = mo_heap_alloc(heap, 100);
  EXPECT_DEATH(mo_heap_free(other, p), "fault=invalid_free");
  EXPECT_DEATH(mo_free(&p), "fault=invalid_free");
  EXPECT_DEATH(mo_heap_free(heap, &p), "fault=invalid_free");
  void* large = mo_heap_alloc(heap, kMiB);
  EXPECT_DEATH(
      {
        mo_heap_free(heap, large);
        mo_heap_free(heap, large);
      },
      "fault=invalid_free");
}

TEST(HeapCpp, ContainersLiveInThem) {
  mortise::heap heap;
  {
    mortise::heap_resource resource(heap);
    std::pmr::map<int, std::pmr::string> names(&resource);
    for (int i = 0; i < 1000; ++i) names.emplace(i, "a name that is too long to lie within the string itself");
    EXPECT_GT(heap.stats().live_bytes, 1000u * 50);
    std::list<int, mortise::heap_allocator<int>> a(heap), b(heap);
    for (int i = 0; i < 100; ++i) a.push_back(i);
    b.splice(b.end(), a);
    EXPECT_EQ(b.size(), 100u);
    struct alignas(64) Wide {
      char bytes[64];
    };
    std::vector<Wide, mortise::heap_allocator<Wide>> wide(10, heap);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % 64, 0u);
    EXPECT_TRUE(resource.is_equal(mortise::heap_resource(heap)));
    EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
  }
  EXPECT_EQ(heap.stats().live_bytes, 0u);
  heap.set_limit(kMiB);
  mortise::heap_resource resource(heap);
  EXPECT_THROW(static_cast<void>(resource.allocate(2 * kMiB)), std::bad_alloc);
  mortise::heap moved = std::move(heap);
  EXPECT_NE(moved.allocate(10), nullptr);
  EXPECT_NE(moved.allocate(10, 256), nullptr);
}

TEST(HeapCpp, AnArenaOnTheStack) {
  alignas(64) char memory[64 << 10];
  mortise::heap arena(memory, sizeof memory);
  mortise::heap_resource resource(arena);
  std::pmr::vector<int> numbers(&resource);
  for (int i = 0; i < 1000; ++i) numbers.push_back(i);
  EXPECT_GE(reinterpret_cast<char*>(numbers.data()), memory);
  EXPECT_LT(reinterpret_cast<char*>(numbers.data()), memory + sizeof memory);
}

}  // namespace
