// If this failed, a thread of wfslab would forget spans that share a bucket with others once the heap is larger than 64 MiB, free a block
// twice on its way home, or lose spans that it keeps at hand.
#include "mortise/backbone/wait_free_slot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "mortise/policy/size_classes.hpp"

namespace mortise::test {
namespace {

using Classes = classes::Geometric<8, 64_KiB>;
using Slot = WaitFreeSlot<Classes>;
using Span = WaitFreeSpan;
constexpr unsigned kClass = Classes::class_of(8_KiB);  // eight blocks a span
constexpr unsigned kBlocks = 8;

std::byte* address(std::uintptr_t n) { return reinterpret_cast<std::byte*>(n); }

/// Spans of one slot, many to a bucket: their addresses are a bucket's turn apart.
struct Crowd {
  static constexpr unsigned kSpans = 12, kInBucket = 4, kBuckets[] = {1, 2, 101};  // two of one word of hints, one of another
  std::unique_ptr<Slot> slot = std::make_unique<Slot>();
  std::vector<Span> spans = std::vector<Span>(kSpans);
  std::set<unsigned> in;  ///< adopted; every block of it is out

  Crowd() { slot->open(0); }
  static std::byte* base_of(unsigned i) {
    return address(1_GiB + kBuckets[i / kInBucket] * 64_KiB + i % kInBucket * (Slot::kBuckets * 64_KiB));
  }

  void adopt(unsigned i) {
    slot->adopt(&spans[i], base_of(i), kClass);
    auto& bin = slot->bins[kClass];
    ASSERT_TRUE(Slot::refill(bin, bin, kClass));
    EXPECT_EQ(bin.current, &spans[i]);
    EXPECT_EQ(bin.base, base_of(i));
    bin.word.store(0, Order::relaxed);
    bin.current = nullptr;
    in.insert(i);
  }
  void put(unsigned i, std::uint64_t bits) {
    EXPECT_EQ(Slot::put_home(&spans[i], base_of(i), 0, bits, kClass, [this](unsigned) -> Slot& { return *slot; }), 0u);
  }
  /// Looks at all that was hinted at; the spans that are complete leave the slot.
  std::multiset<unsigned> look() {
    std::multiset<unsigned> found;
    unsigned looks = 0;
    for (bool more = true; more && looks < 1000; ++looks) {
      if (Span* const s = slot->look(more)) found.insert(static_cast<unsigned>(s - spans.data()));
    }
    EXPECT_LT(looks, 1000u) << "a bucket has no end";
    return found;
  }
  /// All blocks of `some` come home, those of every other span in two goes: looks must find exactly these, each once.
  void complete(const std::vector<unsigned>& some) {
    for (const unsigned i : some)
      if (i % 2) put(i, 1);
    EXPECT_TRUE(look().empty());
    for (const unsigned i : some) {
      EXPECT_EQ(spans[i].is_listed, i % 2 == 1);
      put(i, ((1u << kBlocks) - 1) & ~(i % 2));
    }
    EXPECT_EQ(look(), std::multiset<unsigned>(some.begin(), some.end()));
    for (const unsigned i : some) in.erase(i);
    EXPECT_TRUE(slot->bins[kClass].list.is_empty());
  }
};

TEST(WaitFreeSlot, EverySpanOfABucketIsFoundWhoeverLeftBefore) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Crowd crowd;
    for (unsigned step = 0; step < 60 && !HasFailure(); ++step) {
      std::vector<unsigned> some;
      for (unsigned i = 0; i < Crowd::kSpans; ++i) {
        if (random() % 2) continue;
        if (crowd.in.count(i)) some.push_back(i);
        else crowd.adopt(i);
      }
      std::rotate(some.begin(), some.begin() + static_cast<long>(some.empty() ? 0 : random() % some.size()), some.end());
      crowd.complete(some);
    }
    crowd.complete({crowd.in.begin(), crowd.in.end()});
  }
}

TEST(WaitFreeSlot, ABlockThatIsHomeAlreadyDisturbsNoOther) {
  Crowd crowd;
  crowd.adopt(0);
  crowd.put(0, 0b1011);
  const auto twice = [&](std::uint64_t bits) {
    return Slot::put_home(&crowd.spans[0], Crowd::base_of(0), 0, bits, kClass, [&](unsigned) -> Slot& { return *crowd.slot; });
  };
  EXPECT_EQ(twice(0b0010), 0b0010u);
  EXPECT_EQ(twice(0b1100), 0b1000u) << "the others are told of, and stay out";
  EXPECT_EQ(crowd.spans[0].bin.count(1), 3u);
  crowd.put(0, 0b11110100);
  EXPECT_EQ(crowd.look(), std::multiset<unsigned>{0}) << "it is complete";
}

TEST(WaitFreeSlot, WhoIsToldLaterIsToldOfAll) {
  Crowd crowd;
  auto other = std::make_unique<Slot>();  // whose holder frees
  other->open(1);
  const std::vector<unsigned> some = {0, 5, 9};  // of three buckets
  for (const unsigned i : some) {
    crowd.adopt(i);
    const auto slot_of = [&](unsigned) -> Slot& { return *crowd.slot; };
    EXPECT_EQ(Slot::put_home(&crowd.spans[i], Crowd::base_of(i), 0, (1u << kBlocks) - 1, kClass, slot_of, other.get()), 0u);
    EXPECT_TRUE(other->tidings);
    EXPECT_TRUE(other->has_errands());
  }
  EXPECT_EQ(crowd.look(), (std::multiset<unsigned>{0, 5})) << "the next one tells of the one before";
  other->tidings.tell();
  EXPECT_FALSE(other->tidings);
  EXPECT_FALSE(other->has_errands());
  EXPECT_EQ(crowd.look(), std::multiset<unsigned>{9});
}

TEST(WaitFreeSlot, EveryClassThatIsWantedComesToItsTurn) {
  WaitFreeWants<Classes::kCount> wanted;
  EXPECT_TRUE(wanted.is_empty());
  EXPECT_EQ(wanted.take(), kNoClass);
  const std::vector<unsigned> some = {1, 5, 63, 64, Classes::kCount};
  for (const unsigned c : some) wanted.want(c);
  for (const unsigned c : some) {
    EXPECT_TRUE(wanted.wants(c));
    EXPECT_EQ(wanted.take(), c);
    EXPECT_FALSE(wanted.wants(c));
    wanted.want(1);  // again and again: the others are not kept waiting
  }
  EXPECT_EQ(wanted.take(), 1u);
  EXPECT_TRUE(wanted.is_empty());
  for (const unsigned c : some) wanted.want(c);
  wanted.drop(63);
  for (const unsigned c : {5u, 64u, Classes::kCount, 1u}) EXPECT_EQ(wanted.take(), c);
  for (const unsigned c : some) wanted.want(c);
  wanted.clear();
  EXPECT_TRUE(wanted.is_empty());
}

TEST(WaitFreeSlot, EveryClassThatHasUsedUpAWordIsBroughtTheNext) {
  auto slot = std::make_unique<Slot>();
  slot->open(0);
  const std::vector<unsigned> some = {3, 20, Classes::class_of(500)};
  std::vector<Span> spans(some.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    auto& bin = slot->bins[some[i]];
    slot->adopt(&spans[i], address(1_GiB + i * 64_KiB), some[i]);
    ASSERT_TRUE(Slot::refill(bin, bin, some[i]));
    while (slot->pop(some[i])) EXPECT_TRUE(bin.word.load(Order::relaxed) || slot->wanted.wants(some[i]));
  }
  for (unsigned steps = 0; slot->has_restock(); ++steps) {
    ASSERT_EQ(slot->restock(), kNoClass);
    ASSERT_LT(steps, 3 * some.size());
  }
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(slot->pop(some[i]), address(1_GiB + i * 64_KiB) + 64 * Classes::size_of(some[i])) << "the first block of the second word";
}

TEST(WaitFreeSlot, ASpareIsAskedForBeforeItIsAdopted) {
  Crowd crowd;
  Slot& slot = *crowd.slot;
  unsigned c = kNoClass;
  for (const bool is_late : {false, true}) {
    slot.wanted.want(kClass);
    EXPECT_EQ(slot.restock(), kClass) << "it has no span";
    EXPECT_FALSE(slot.has_restock());
    EXPECT_EQ(slot.ask_to_adopt(kClass), nullptr) << "there is none";
    ASSERT_TRUE(slot.keep_spare(Slot::Geometry::kind(kClass), &crowd.spans[0]));
    EXPECT_EQ(slot.ask_to_adopt(kClass), &crowd.spans[0]);
    EXPECT_TRUE(slot.has_chores());
    if (is_late) crowd.adopt(1), slot.bins[kClass].current = &crowd.spans[1];  // a refill came first
    EXPECT_EQ(slot.take_to_adopt(c), is_late ? nullptr : &crowd.spans[0]);
    EXPECT_EQ(c, kClass);
    EXPECT_FALSE(slot.has_restock());
  }
  EXPECT_EQ(slot.take_spare(Slot::Geometry::kind(kClass)), &crowd.spans[0]);
}

/// As a chore it goes when there is room for it, or when it has kept a look waiting.
TEST(WaitFreeSlot, ASpanWithoutRoomAmongTheSparesLeavesWhenAnotherLookBegins) {
  for (const bool has_room : {true, false}) {
    Crowd crowd;
    Slot& slot = *crowd.slot;
    const unsigned kind = Slot::Geometry::kind(kClass);
    if (!has_room) slot.spares[kind].store(Slot::kSpares[kind], Order::relaxed);
    crowd.adopt(0);
    crowd.put(0, (1u << kBlocks) - 1);
    EXPECT_FALSE(slot.begin_look());
    while (!slot.leaving) ASSERT_TRUE(slot.can_look_on() && !slot.look_on());
    EXPECT_EQ(slot.can_look_on(), has_room);
    EXPECT_TRUE(slot.begin_look());
    EXPECT_TRUE(slot.can_look_on());
    EXPECT_EQ(slot.can_look_on(true), has_room);
    EXPECT_EQ(slot.look_on(), &crowd.spans[0]);
    EXPECT_EQ(slot.look_on(), nullptr);
    EXPECT_FALSE(slot.has_chores());
  }
}

TEST(WaitFreeSlot, WordsGoHomeInTheirOrder) {
  WaitFreeDepartures way;
  std::vector<unsigned> out;
  for (unsigned i = 1; i <= 50; ++i) {
    if (way.is_full() || i % 7 == 0) out.push_back(static_cast<unsigned>(way.take().bits));
    way.is_asked = true;
    way.push({address(i * 64_KiB), i, kClass});
    unsigned blocks = 0, c = kNoClass;
    for (unsigned k = 0; k < WaitFreeDepartures::kStages; ++k) blocks += way.count(k, c);
    EXPECT_GT(blocks, 0u);
  }
  while (!way.is_empty()) {
    const WaitFreeWord first = way.first(), word = way.take();
    EXPECT_EQ(first.at, word.at);
    EXPECT_EQ(word.at, address(word.bits * 64_KiB));
    EXPECT_FALSE(way.is_asked) << "nobody has asked for the next one";
    out.push_back(static_cast<unsigned>(word.bits));
  }
  ASSERT_EQ(out.size(), 50u);
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(out[i], i + 1);
  unsigned c = kNoClass;
  for (unsigned k = 0; k < WaitFreeDepartures::kStages; ++k) EXPECT_EQ(way.count(k, c), 0u);
}

TEST(WaitFreeSlot, NeighboursGoHomeTogether) {
  auto slot = std::make_unique<Slot>();
  slot->open(0);
  const unsigned c = Classes::class_of(64);
  std::map<std::byte*, std::uint64_t> expected, left;
  const auto send = [&](unsigned word, unsigned i) {
    Slot::Word leaves;
    EXPECT_TRUE(slot->send(c, address(1_GiB) + word * 64 * 64, i, leaves));
    expected[address(1_GiB) + word * 64 * 64] |= std::uint64_t{1} << i;
    if (leaves.bits) {
      EXPECT_EQ(leaves.size_class, c);
      EXPECT_EQ(left[leaves.at] & leaves.bits, 0u);
      left[leaves.at] |= leaves.bits;
    }
  };
  for (unsigned word = 0; word < 20; ++word)
    for (unsigned i = 0; i < 64; ++i) send(word, i);
  EXPECT_EQ(left.size(), 19u) << "a word leaves when the next begins";
  for (unsigned word = 20; word < 200; ++word) send(word % 60 + 20, word % 64);
  const Slot::Word out = Slot::take_out(slot->bins[c], c);
  left[out.at] |= out.bits;
  EXPECT_EQ(left, expected);
  EXPECT_EQ(Slot::take_out(slot->bins[c], c).bits, 0u) << "nothing is sent twice";
}

TEST(WaitFreeSlot, LargeBlocksDoNotWaitForManyNeighbours) {
  auto slot = std::make_unique<Slot>();
  slot->open(0);
  for (unsigned c = 1; c <= Classes::kCount; ++c) {
    const std::size_t size = Classes::size_of(c);
    std::size_t waiting = 0, most = 0;
    for (unsigned i = 0; i < 64; ++i) {
      Slot::Word leaves;
      ASSERT_TRUE(slot->send(c, address(1_GiB), i, leaves));
      waiting = static_cast<unsigned>(std::popcount(slot->bins[c].out.load(Order::relaxed)));
      most = std::max(most, waiting * size);
    }
    EXPECT_LE(most, std::max<std::size_t>(16_KiB, size));
    EXPECT_GE(most * 2, std::min<std::size_t>(16_KiB, size * 64));
  }
}

TEST(WaitFreeSlot, ABlockThatWaitsIsNotTakenTwice) {
  auto slot = std::make_unique<Slot>();
  slot->open(0);
  Slot::Word leaves;
  EXPECT_TRUE(slot->send(1, address(1_GiB), 5, leaves));
  EXPECT_TRUE(slot->send(1, address(1_GiB), 6, leaves));
  EXPECT_FALSE(slot->send(1, address(1_GiB), 5, leaves));
  EXPECT_EQ(leaves.bits, 0u);
  auto& bin = slot->bins[1];
  EXPECT_TRUE(Slot::take_back(bin));
  EXPECT_EQ(slot->pop(1), address(1_GiB) + 5 * Classes::size_of(1));
  EXPECT_EQ(slot->pop(1), address(1_GiB) + 6 * Classes::size_of(1));
  EXPECT_EQ(slot->pop(1), nullptr);
  EXPECT_FALSE(Slot::take_back(bin));
}

TEST(WaitFreeSlot, ABlockOfTheWordInUseGoesBackToItOnce) {
  Crowd crowd;
  crowd.slot->adopt(&crowd.spans[0], Crowd::base_of(0), kClass);
  auto& bin = crowd.slot->bins[kClass];
  ASSERT_TRUE(Slot::refill(bin, bin, kClass));
  for (unsigned i = 0; i < kBlocks; ++i) EXPECT_EQ(crowd.slot->pop(kClass), Crowd::base_of(0) + i * Classes::size_of(kClass));
  EXPECT_EQ(crowd.slot->pop(kClass), nullptr);
  Slot::Word leaves;
  for (const unsigned i : {6u, 2u}) EXPECT_TRUE(crowd.slot->send(kClass, Crowd::base_of(0), i, leaves));
  EXPECT_FALSE(crowd.slot->send(kClass, Crowd::base_of(0), 6, leaves)) << "it is free already";
  EXPECT_EQ(leaves.bits, 0u);
  EXPECT_EQ(bin.out.load(Order::relaxed), 0u) << "none waits to go home";
  for (const unsigned i : {2u, 6u}) EXPECT_EQ(crowd.slot->pop(kClass), Crowd::base_of(0) + i * Classes::size_of(kClass));
  EXPECT_EQ(crowd.slot->pop(kClass), nullptr);
}

TEST(WaitFreeSlot, ASpanThatHasLeftIsNotLookedAtAgain) {
  Crowd crowd;
  for (const unsigned i : {0u, 1u}) crowd.adopt(i), crowd.put(i, (1u << kBlocks) - 1);
  unsigned left = 0, hints = 1;
  for (bool more = true; more;) {
    left += crowd.slot->look(more) != nullptr;
    if (hints && crowd.slot->hints.has_buckets_left()) --hints, crowd.slot->hints.announce(Slot::bucket_of(Crowd::base_of(0)));
  }
  EXPECT_EQ(left, 2u);
  for (const unsigned i : {0u, 1u}) EXPECT_FALSE(crowd.spans[i].is_listed);
}

/// Between two looks anything may happen to a span that was about to leave.
TEST(WaitFreeSlot, ASpanThatIsUsedAgainBeforeItLeavesStays) {
  Crowd crowd;
  crowd.adopt(0);
  crowd.put(0, 1);
  EXPECT_TRUE(crowd.look().empty());
  EXPECT_TRUE(crowd.spans[0].is_listed);
  crowd.put(0, ((1u << kBlocks) - 1) & ~1u);
  bool more = true;
  while (!crowd.slot->leaving) ASSERT_EQ(crowd.slot->look(more), nullptr);
  auto& bin = crowd.slot->bins[kClass];
  ASSERT_TRUE(Slot::refill(bin, bin, kClass));
  EXPECT_TRUE(crowd.look().empty()) << "its blocks are out";
  bin.word.store(0, Order::relaxed);
  bin.current = nullptr;
  crowd.put(0, (1u << kBlocks) - 1);
  EXPECT_EQ(crowd.look(), std::multiset<unsigned>{0});
}

TEST(WaitFreeSlot, KeepsSoManySparesOfEachKind) {
  auto slot = std::make_unique<Slot>();
  for (unsigned kind = 0; kind < kSpanKinds; ++kind) {
    std::vector<Span> spans(Slot::kSpares[kind] + 1);
    for (unsigned i = 0; i < Slot::kSpares[kind]; ++i) EXPECT_TRUE(slot->keep_spare(kind, &spans[i]));
    EXPECT_FALSE(slot->keep_spare(kind, &spans.back()));
    for (unsigned i = Slot::kSpares[kind]; i-- > 0;) EXPECT_EQ(slot->take_spare(kind), &spans[i]);
    EXPECT_EQ(slot->take_spare(kind), nullptr);
    EXPECT_EQ(slot->spares[kind].load(Order::relaxed), 0u);
  }
}

}  // namespace
}  // namespace mortise::test
