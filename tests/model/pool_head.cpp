// If this fails, a pool may hand one object to two threads, or lose one: the heads of the object pools are run in every
// interleaving that matters, with each thread stopped for ever at each step.
#include "mortise/pool/head.hpp"

#include <gtest/gtest.h>

#include "running.hpp"

namespace mortise::model {
namespace {

/// An entry as the pools have it: the link is the pool's alone, the value its owner's.
struct Entry {
  FreeLink link;
  Shared<int> owned;
};

template <class Head>
struct Pool {
  Head head;
  Entry entry[4];

  pools::Links links() { return {reinterpret_cast<std::byte*>(entry), sizeof(Entry)}; }
  Entry* take() {
    auto* const e = reinterpret_cast<Entry*>(head.pop(links(), [] {}));
    if (!e) return nullptr;
    require(e->owned.get() == 0, "an entry was handed out twice");
    e->owned.set(1);
    return e;
  }
  void give(Entry* e) {
    e->owned.set(0);
    head.push(links(), &e->link, [] {});
  }
  void put(unsigned i) {
    head.push(links(), &entry[i].link, [] {});
  }
  void give_own(unsigned i) {
    entry[i].owned.set(1);
    give(&entry[i]);
  }
  void check_each_once(unsigned count) {
    unsigned seen = 0, held = 0;
    while (auto* const e = reinterpret_cast<Entry*>(head.pop(links(), [] {}))) {
      require(e >= entry && e < entry + count, "an entry came out that never went in");
      require(!(seen & 1u << (e - entry)), "an entry is in the pool twice");
      require(e->owned.get() == 0, "an entry is in the pool and with the program");
      seen |= 1u << (e - entry);
    }
    for (unsigned i = 0; i < count; ++i) held |= unsigned(entry[i].owned.get()) << i;
    require((seen | held) == (1u << count) - 1, "an entry is lost");
  }
};

template <class Head>
struct PushAgainstPops : Pool<Head> {
  static constexpr unsigned kThreads = 2;
  PushAgainstPops() { this->put(0); }
  void run(unsigned thread) {
    if (thread == 0) this->give_own(1);
    else this->take(), this->take();
  }
  void finish() { this->check_each_once(2); }
};

template <class Head>
struct PopAgainstPopPopPush : Pool<Head> {  // where ABA would strike
  static constexpr unsigned kThreads = 2;
  PopAgainstPopPopPush() { this->put(1), this->put(0); }
  void run(unsigned thread) {
    if (thread == 0) {
      this->take();
    } else {
      Entry* const a = this->take();
      this->take();
      if (a) this->give(a);
    }
  }
  void finish() { this->check_each_once(2); }
};

/// One thread pops while others take, take and put back in another order: the case that the order of tag and top is
/// for.
template <class Head>
struct PopAgainstTwoOthers : Pool<Head> {
  static constexpr unsigned kThreads = 3;
  PopAgainstTwoOthers() { this->put(1), this->put(0); }
  void run(unsigned thread) {
    if (thread == 0) {
      this->take();
    } else if (Entry* const e = this->take()) {
      this->give(e);
    }
  }
  void finish() { this->check_each_once(2); }
};

template <class Head>
struct TwoPushesAgainstPop : Pool<Head> {
  static constexpr unsigned kThreads = 3;
  TwoPushesAgainstPop() { this->put(0); }
  void run(unsigned thread) {
    if (thread == 0) this->take();
    else this->give_own(thread);
  }
  void finish() { this->check_each_once(3); }
};

template <class Head>
class PoolHead : public testing::Test {};
using Heads = testing::Types<pools::AsymmetricHead, pools::IndexHead>;
TYPED_TEST_SUITE(PoolHead, Heads);

TYPED_TEST(PoolHead, PushAgainstPops) { check<PushAgainstPops<TypeParam>>(TypeParam::kName); }
TYPED_TEST(PoolHead, PopAgainstPopPopPush) { check<PopAgainstPopPopPush<TypeParam>>(TypeParam::kName); }
TYPED_TEST(PoolHead, PopAgainstTwoOthers) {
  if (kAll) check<PopAgainstTwoOthers<TypeParam>>(TypeParam::kName);
  else run<PopAgainstTwoOthers<TypeParam>>(TypeParam::kName);
}
TYPED_TEST(PoolHead, TwoPushesAgainstPop) { check<TwoPushesAgainstPop<TypeParam>>(TypeParam::kName); }

/// The asymmetric head with its halves the other way round: the top is read before the tag.
struct TopBeforeTag {
  struct Head {
    FreeLink* top;
    std::uint64_t tag;
  };
  AtomicPair<Head> head_;
  template <class Repeat>
  void push(const pools::Links&, FreeLink* link, Repeat&&) {
    Head head = head_.load_halves(Order::relaxed);
    do link->next.store(head.top, Order::relaxed);
    while (!head_.compare_exchange(head, {link, head.tag}));
  }
  template <class Repeat>
  FreeLink* pop(const pools::Links&, Repeat&&) {
    Head head = head_.load_halves(Order::acquire);
    while (head.top) {
      FreeLink* const next = head.top->next.load(Order::relaxed);
      if (head_.compare_exchange(head, {next, head.tag + 1})) return head.top;
    }
    return nullptr;
  }
};

TEST(PoolHead, TheOrderOfTagAndTopIsNeeded) {
  const Report report = explore<PopAgainstPopPopPush<TopBeforeTag>>();
  EXPECT_FALSE(report.failure.empty()) << "the search does not find what the header's banner warns of";
}

}  // namespace
}  // namespace mortise::model
