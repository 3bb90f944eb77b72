// The pools themselves, led by a Chooser that a test writes. If this failed, objects of one chain of calls would lie in another's
// pool, a rule that is out of date would be followed off the stack, or memory of a thread that has ended would be lost.
#include "mortise/route/affinity_pools.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/size_check.hpp"
#include "mortise/shape/block_marks.hpp"
#include "tests/support/advice.hpp"
#include "tests/support/each_instruction.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

constexpr std::uintptr_t kWrapper = 0x1000, kFirst = 0x2000, kSecond = 0x3000, kByFrame = 0x4000, kRare = 0x5000, kBelow = 0x6000, kMixed = 0x7000;

/// Knows one wrapper, whose frame has 32 bytes, another that is left by rbp, and a pool for each address that ends a chain.
class Scripted {
 public:
  static constexpr const char* kName = "Scripted";
  static constexpr bool kReadsCalls = true;
  static constexpr std::uint16_t kPlainId = 300, kFrameId = 301;

  bool start() noexcept { return true; }
  static std::uintptr_t stack_end() noexcept { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) + (1 << 20); }
  std::uint32_t epoch() const noexcept { return now; }
  std::size_t object_bytes_max() const noexcept { return 128; }

  void choose(const CallSite& site, std::size_t size, CallChoice& choice) noexcept {
    ++asked;
    unsigned id = static_cast<unsigned>((size + 15) / 16);
    const unsigned size_class = id;
    CallFrame frame = site.frame;
    std::uintptr_t address = site.address;
    while (address == kWrapper || address == kByFrame) {
      const CallStep& step = address == kWrapper ? plain : by_frame;
      choice.hop[choice.hops++] = {call_key(address, id), &step};
      if (!frame.climb(step, site.stack_end)) return;
      address = frame.return_address();
      id = step.id;
    }
    choice.key = call_key(address, id);
    if (address == kRare) return;
    Pool& pool = address == kFirst ? first : address == kSecond ? second : address == kMixed ? mixed : below;
    pool.id = address == kFirst ? 1 : address == kSecond ? 2 : address == kMixed ? 4 : 3;
    pool.size_class = address == kMixed ? 0 : size_class;
    pool.is_mixed = address == kMixed;
    pool.is_forwarding = address == kBelow;
    choice.pool = &pool;
  }
  void gave(const CallSite&, CallChoice&, void* p, std::size_t) noexcept { told = p; }
  void lock_all() noexcept {}
  void unlock_all() noexcept {}
  void reset_after_fork() noexcept {}

  CallStep plain{.cfa_offset = 32, .rbp_offset = -16, .from_rbp = false, .id = kPlainId};
  CallStep by_frame{.cfa_offset = 16, .rbp_offset = -16, .from_rbp = true, .id = kFrameId};
  Pool first{}, second{}, mixed{}, below{};
  unsigned asked = 0;
  std::uint32_t now = 1;
  void* told = nullptr;
};

using Heap = Stack<Layers<AffinityPools<Scripted>>, HslabLayers>;

/// A stack as a call of malloc leaves it: saved registers below, malloc's return address, and one caller's frame above.
struct Calls {
  std::uintptr_t word[24] = {};
  const void* site() const { return &word[8]; }
  explicit Calls(std::uintptr_t returns_to, std::uintptr_t callers_returns_to = 0) {
    word[8] = returns_to;
    word[12] = callers_returns_to;  // 32 bytes up: its return address lies in the word below
    word[3] = reinterpret_cast<std::uintptr_t>(&word[11]);  // rbp, for the frame that is left by it
    word[11] = 0xf00;                                       // the caller's rbp
  }
};

Block ask(Heap& h, Heap::Thread& t, const Calls& calls, std::size_t size) {
  const Request r{.size = size, .site = calls.site()};
  const Block b = h.allocate_hit(t, r);
  return b ? b : h.allocate(t, r);
}
bool is_pooled(Heap& h, Block b) { return h.block_of(b.ptr).size_class == Heap::kPooled; }

TEST(AffinityPools, ObjectsOfOneChainLieTogether) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls one(kFirst), other(kSecond);
    std::vector<Block> a, b;
    for (int i = 0; i < 100; ++i) a.push_back(ask(h, t, one, 32)), b.push_back(ask(h, t, other, 32));
    EXPECT_EQ(h.chooser().asked, 2u) << "known ways are not asked about again";
    for (std::size_t i = 1; i < 100; ++i) EXPECT_EQ(a[i].ptr - a[i - 1].ptr, 32) << i;
    EXPECT_TRUE(is_pooled(h, a[0]));
    for (const Block x : a) h.release(t, x);
    for (const Block x : b) h.release(t, x);
    h.audit();
  });
}

TEST(AffinityPools, ObjectsLieInEqualStepsThroughSegmentsAndKeepWhatIsInThem) {
  for (const std::size_t size : {48, 80, 96, 112, 128}) {
    Stage<Heap> stage;
    stage.as(0, [size](Heap& h, auto& t) {
      const Calls one(kFirst), other(kSecond);
      const auto fill = [](Block b, std::size_t i, std::size_t n) { std::memset(b.ptr, static_cast<int>(i % 251), n); };
      const auto is_whole = [](Block b, std::size_t i, std::size_t n) {
        for (std::size_t k = 0; k < n; ++k)
          if (b.ptr[k] != static_cast<std::byte>(i % 251)) return false;
        return true;
      };
      std::vector<Block> all;
      unsigned odd = 0;
      for (std::size_t i = 0; i < 1_MiB / size; ++i) {
        all.push_back(ask(h, t, one, size));
        fill(all[i], i, size);
        ASSERT_EQ(h.pools().object_at(all[i].ptr + size - 1).start, all[i].ptr) << size << ' ' << i;
        odd += i && all[i].ptr - all[i - 1].ptr != static_cast<std::ptrdiff_t>(size);
      }
      EXPECT_LE(odd, 10u) << size << ": at the ends of extents, which double";
      for (const Block b : all)
        for (std::size_t k = 0; k < size; k += 5) ASSERT_EQ(h.pools().object_at(b.ptr + k).start, b.ptr) << size << ' ' << k;
      h.audit();
      std::vector<bool> gone(all.size());
      for (std::size_t i = 0; i < all.size(); ++i)  // every other segment
        if (static_cast<std::size_t>(all[i].ptr - h.pools().range().origin()) / 4_KiB % 2)
          gone[i] = true, h.release(t, all[i]);
      h.audit();
      h.trim(t);  // their pages go back, but for the ends of objects in those before
      std::vector<Block> others;
      for (std::size_t i = 0; i < 1_MiB / 64; ++i) {
        others.push_back(ask(h, t, other, 64));
        fill(others[i], i + 1, 64);
      }
      h.audit();
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (gone[i]) continue;
        ASSERT_TRUE(is_whole(all[i], i, size)) << size << ' ' << i;
        ASSERT_EQ(h.pools().object_at(all[i].ptr + size - 1).start, all[i].ptr) << size << ' ' << i;
      }
      EXPECT_EQ(h.pools().dirty_bytes(), 0u) << "nothing waits that cannot be purged";
      EXPECT_LT(h.pools().range().end(), 2 * 256 + 64u) << "what went back is used again";
      for (std::size_t i = 0; i < others.size(); ++i) ASSERT_TRUE(is_whole(others[i], i + 1, 64)) << size << ' ' << i;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (!gone[i]) h.release(t, all[i]);
      for (const Block b : others) h.release(t, b);
      h.audit();
      h.trim(t);
      EXPECT_EQ(h.pools().dirty_bytes(), 0u) << "nothing ends in them any more";
    });
  }
}

TEST(AffinityPools, LargeOnesAskForHugePagesUntilSomeOfThemGoBack) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls one(kFirst);
    std::vector<Block> all;
    for (std::size_t i = 0; i < 24_MiB / 128; ++i) all.push_back(ask(h, t, one, 128));
    EXPECT_EQ(advice_at(all.front().ptr), "");
    EXPECT_EQ(advice_at(all[7_MiB / 128].ptr), "");
    EXPECT_EQ(advice_at(all[9_MiB / 128].ptr), "hg");
    EXPECT_EQ(advice_at(all.back().ptr), "hg");
    for (std::size_t i = 20_MiB / 128; i < all.size(); ++i)
      if (i % 4096) h.release(t, all[i]);
    h.trim(t);
    EXPECT_EQ(advice_at(all[9_MiB / 128].ptr), "hg") << "nothing of this one went back";
    EXPECT_EQ(advice_at(all[22_MiB / 128].ptr), "nh");
    h.set_huge_pages(HugePages::never);
    while (all.size() < 32_MiB / 128) all.push_back(ask(h, t, one, 128));
    EXPECT_EQ(advice_at(all.back().ptr), "nh");
    h.audit();
  });
}

TEST(AffinityPools, WrappersAreSteppedOver) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    for (const std::uintptr_t wrapper : {kWrapper, kByFrame}) {
      const Calls one(wrapper, kFirst), other(wrapper, kSecond);
      for (int i = 0; i < 3; ++i) {
        const Block a = ask(h, t, one, 32), b = ask(h, t, other, 32);
        const auto pool = [&](Block x) { return h.pools().range().segment_of(x.ptr)->head->pool; };
        EXPECT_EQ(pool(a), &h.chooser().first);
        EXPECT_EQ(pool(b), &h.chooser().second);
      }
    }
  });
}

TEST(AffinityPools, StepsAreNotFollowedWhenOutOfDateOrOffTheStack) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls calls(kWrapper, kFirst);
    const Request r{.size = 32, .site = calls.site()};
    const auto through = [&] { return bool(h.allocate_hit(t, r)); };
    ask(h, t, calls, 32);
    EXPECT_TRUE(through());
    const unsigned asked = h.chooser().asked;
    h.chooser().now = 2;  // a module has been unloaded
    EXPECT_FALSE(through()) << "refused at once: the frame may have changed, and the stack may be a coroutine's";
    EXPECT_FALSE(through());
    ask(h, t, calls, 32);
    EXPECT_EQ(h.chooser().asked, asked + 1) << "the way is asked for again";
    EXPECT_TRUE(through());
    Calls other(kWrapper, kFirst);  // other code at the wrapper's address, with another frame
    other.word[12] = 0x77;
    EXPECT_FALSE(h.allocate_hit(t, {.size = 32, .site = other.site()})) << "what lies there is no return address of a way";
    t.stack_end = address_of(calls.site()) + 16;  // the frame would end beyond
    EXPECT_FALSE(through());
    EXPECT_FALSE(is_pooled(h, ask(h, t, calls, 32)));
  });
}

TEST(AffinityPools, TwoCallsThatMeetInOnePlaceOfTheCacheArePartedAfterSomeMisses) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls one(0x10000);
    const auto misses = [&](const Calls& calls) {
      const unsigned before = h.chooser().asked;
      h.release(t, ask(h, t, calls, 32));
      return h.chooser().asked - before;
    };
    std::uintptr_t address = 0x10000;
    do {
      misses(one);
      misses(Calls(address += 16));
    } while (!misses(one));
    const Calls other(address);
    unsigned missed = 0;
    for (int i = 0; i < 20'000; ++i) missed += misses(other) + misses(one);
    EXPECT_GE(missed, 100u) << "these two did not meet";
    EXPECT_LT(missed, 10'000u);
    EXPECT_EQ(misses(other) + misses(one), 0u);
  });
}

TEST(AffinityPools, SizesThatShareABitOfTheGateGoBelow) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls calls(kFirst);
    EXPECT_TRUE(is_pooled(h, ask(h, t, calls, 16)));
    const unsigned asked = h.chooser().asked;
    for (const std::size_t size : {std::size_t{0}, 16 + 1_KiB, 16 + 1_MiB, std::size_t{129}}) {
      const Block b = ask(h, t, calls, size);
      EXPECT_FALSE(is_pooled(h, b)) << size;
      EXPECT_GE(b.size, size);
      h.release(t, b);
    }
    EXPECT_EQ(h.chooser().asked, asked);
  });
}

TEST(AffinityPools, UndecidedObjectsComeFromBelowAndAreTold) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Block rare = ask(h, t, Calls(kRare), 32);
    EXPECT_FALSE(is_pooled(h, rare));
    EXPECT_EQ(h.chooser().told, rare.ptr);
    h.chooser().told = nullptr;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(is_pooled(h, ask(h, t, Calls(kBelow), 32)));
    EXPECT_EQ(h.chooser().told, nullptr) << "a pool that forwards is decided";
    EXPECT_EQ(h.chooser().asked, 2u);
    EXPECT_FALSE(is_pooled(h, ask(h, t, Calls(kFirst), 129)));
    EXPECT_FALSE(is_pooled(h, h.allocate(t, {.size = 32}))) << "a call from within has no site";
  });
}

TEST(AffinityPools, ObjectsOfSeveralSizesLieSideBySideInAMixedPool) {
  Stage<Heap> stage(2);
  std::vector<Block> blocks;
  const Calls calls(kMixed);
  stage.as(0, [&](Heap& h, auto& t) {
    for (int i = 0; i < 20'000; ++i) {
      for (const std::size_t bytes : {std::size_t{24}, std::size_t{56}, std::size_t{100}}) {
        const Block b = ask(h, t, calls, bytes);
        ASSERT_TRUE(b.ptr && is_pooled(h, b) && is_aligned(b.ptr, kMinAlign));
        EXPECT_GE(h.measure(b).size, bytes);
        EXPECT_LT(h.measure(b).size, bytes + 2 * kMinAlign);
        std::memset(b.ptr, static_cast<int>(bytes), bytes);
        if (!blocks.empty() && i < 1000) {
          EXPECT_EQ(b.ptr, blocks.back().ptr + h.measure(blocks.back()).size + 8) << "right behind the last one";
        }
        blocks.push_back(b);
      }
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) h.release(t, blocks[i]);
    t.busy = true;  // a signal handler's release waits
    h.release(t, blocks[1]);
    t.busy = false;
    Usage u;
    h.tell(u);
    EXPECT_GE(u.live, blocks.size() / 2 * 60);
  });
  stage.as(1, [&](Heap& h, auto& t) {  // another thread's releases and its own objects, in the same pool
    const Block own = ask(h, t, calls, 24);
    EXPECT_TRUE(is_pooled(h, own));
    for (std::size_t i = 3; i < blocks.size(); i += 2) {
      EXPECT_EQ(blocks[i].ptr[23], blocks[i].ptr[0]);
      h.release(t, blocks[i]);
    }
    h.release(t, own);
    h.trim(t);
    h.audit();
    Usage u;
    h.tell(u);
    EXPECT_LT(u.live, 4096u);
  });
}

TEST(AffinityPools, AUnionTakesEffectWithTheNextSegment) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls one(kFirst), other(kSecond);
    ask(h, t, other, 32);
    ask(h, t, one, 32);
    h.chooser().first.successor.store(&h.chooser().second, Order::release);
    Block last{};
    for (int i = 0; i < 300; ++i) last = ask(h, t, one, 32);
    EXPECT_EQ(h.pools().range().segment_of(last.ptr)->head->pool, &h.chooser().second);
  });
}

TEST(AffinityPools, AHeadOutlivesItsThread) {
  Stage<Heap> stage(2);
  std::vector<Block> blocks;
  const Calls calls(kFirst);
  stage.as(0, [&](Heap& h, auto& t) {
    for (int i = 0; i < 1000; ++i) blocks.push_back(ask(h, t, calls, 64));
  });
  stage.detach(0);
  stage.as(1, [&](Heap& h, auto& t) {
    for (const Block b : blocks) h.release(t, b);  // nobody's: they wait
    Usage before, after;
    h.tell(before);
    std::vector<Block> again;
    for (int i = 0; i < 1000; ++i) again.push_back(ask(h, t, calls, 64));
    h.tell(after);
    EXPECT_EQ(after.live, before.live) << "the same memory serves again";
    for (const Block b : again) h.release(t, b);
    h.trim(t);
    h.audit();
    Usage end;
    h.tell(end);
    EXPECT_LT(end.live, before.live);
  });
}

TEST(AffinityPools, ASignalHandlerInTheMiddleGoesBelow) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls calls(kFirst);
    const Block b = ask(h, t, calls, 32);
    t.busy = true;  // as when a signal arrives inside
    EXPECT_FALSE(is_pooled(h, ask(h, t, calls, 32)));
    EXPECT_FALSE(h.release_hit(t, b));
    h.release(t, b);  // remotely
    t.busy = false;
    EXPECT_TRUE(h.pools().range().segment_of(b.ptr)->head->remote.load(Order::relaxed));
  });
}

#if defined(__x86_64__)

/// What lies below: a block after another, from any instruction on.
class Endless {
 public:
  struct Thread {};
  struct Classes {
    static constexpr unsigned kCount = 1;
    static constexpr std::size_t kMaxBytes = 64;
    static constexpr unsigned class_of(std::size_t) { return 1; }
    static constexpr std::size_t size_of(unsigned) { return 64; }
  };
  static constexpr Progress kProgress = Progress::of(Guarantee::wait_free);
  Block allocate(Thread&, Request) noexcept { return {block_[next_++ % 64], 64, 1}; }
  void release(Thread&, Block) noexcept {}
  bool holds(const std::byte* p) noexcept { return p >= block_[0] && p < block_[64]; }
  Block block_of(std::byte* p) noexcept { return {p, 64, 1}; }
  Block measure(Block b) noexcept { return {b.ptr, 64, 1}; }

 private:
  alignas(64) std::byte block_[65][64] = {};
  unsigned next_ = 0;
};

TEST(AffinityPools, ASignalHandlerMayAllocateAndReleaseAtAnyInstruction) {
  using BySize = AffinityPools<>::Over<Endless>;
  std::unique_ptr<BySize> heap;
  auto t = std::make_unique<BySize::Thread>();
  const auto use = [&](std::size_t size) {
    const auto get = [&] {
      const Block hit = heap->allocate_hit(*t, {.size = size});
      return hit ? hit : heap->allocate(*t, {.size = size});
    };
    const Block a = get(), b = get();
    EXPECT_NE(a.ptr, b.ptr);
    for (const Block one : {a, b}) {
      const Block found = heap->block_of(one.ptr);
      if (!heap->release_hit(*t, found)) heap->release(*t, found);
    }
  };
  const unsigned instructions = EachInstruction::of(
      [&] {
        if (heap) {
          heap->trim(*t);
          heap->audit();
        }
        heap = std::make_unique<BySize>();
        *t = {};
        ASSERT_TRUE(start_below(*heap, own_facts()));
        heap->attach(*t);
      },
      [&] { use(32); },
      [&] {
        use(32);
        use(48);
      });
  EXPECT_GT(instructions, 300u);
}

#endif

TEST(AffinityPools, EmptyChunksGoBackToTheSystem) {
  Stage<Heap> stage;
  stage.as(0, [](Heap& h, auto& t) {
    const Calls calls(kFirst);
    std::vector<Block> blocks;
    for (int i = 0; i < 200'000; ++i) blocks.push_back(ask(h, t, calls, 128));
    Usage full, empty;
    h.tell(full);
    for (const Block b : blocks) h.release(t, b);
    h.trim(t);
    h.tell(empty);
    EXPECT_LT(empty.mapped, full.mapped / 4);
    for (int i = 0; i < 200'000; ++i) blocks[static_cast<std::size_t>(i)] = ask(h, t, calls, 128);
    h.audit();
    for (const Block b : blocks) h.release(t, b);
  });
}

/// Pools below pools: an object is of whose range it lies in.
TEST(AffinityPools, StandAboveOthers) {
  using Two = Stack<Layers<AffinityPools<BySizeClass<64>>, AffinityPools<BySizeClass<128>>>, HslabLayers>;
  Stage<Two> stage;
  stage.as(0, [](Two& h, auto& t) {
    for (const std::size_t n : {16, 64, 100, 128, 1000}) {
      const Block b = h.allocate(t, {.size = n});
      ASSERT_TRUE(b && h.holds(b.ptr));
      ASSERT_GE(h.measure(h.block_of(b.ptr)).size, n);
      const Block found = h.block_of(b.ptr);
      if (!h.release_hit(t, found)) h.release(t, found);
    }
    h.audit();
  });
}

unsigned mismatches = 0;
void count(const Crime&) noexcept { ++mismatches; }

/// Guards below know nothing of objects in pools, and those above are not to take their marks or their sizes for the blocks' below.
TEST(AffinityPools, GuardsBelowAreAskedAboutTheirOwnBlocks) {
  using H = Stack<Layers<AffinityPools<>, SizeCheck<on_fault::CallBack<count>>, SealedTail<>>, HslabOver<MmapHeap<>>>;
  static_assert(!Marked<H> && !kSizesExactly<H> && !FitsOn<HeaderMagic<>, H> && !FitsOn<SizeCheck<>, H>);
  Stage<H> stage;
  mismatches = 0;
  stage.as(0, [](H& h, auto& t) {
    const Block pooled = h.allocate(t, {.size = 100}), other = h.allocate(t, {.size = 1000});
    ASSERT_EQ(h.block_of(pooled.ptr).size_class, H::kPooled);
    h.check_size(pooled.ptr, 100, 1);
    h.check_size(other.ptr, 1000, 1);
    EXPECT_EQ(mismatches, 0u);
    h.check_size(other.ptr, 999, 1);
    EXPECT_EQ(mismatches, 1u);
  });
}

}  // namespace
}  // namespace mortise::test
