// If this fails, a block freed in wfslab is lost, handed out twice, or taken before its last user has done with it, a span is
// reused while somebody is still in it, or an operation takes more steps than its bound: the bins of blocks and of spans are run
// in every interleaving that matters, with each thread stopped for ever at each step.
#include "mortise/sync/wait_free_bin.hpp"

#include <gtest/gtest.h>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

/// The shipped bin with words of two bits, so that words get full within a few operations.
using Bin = WaitFreeBin<2, 2>;

/// A span of blocks and its owner's bin of spans, as the backbone uses them: who wakes or completes the span's bin puts the span
/// into the owner's.
template <unsigned kCapacityT, class BinT = Bin>
struct Span {
  static constexpr unsigned kCapacity = kCapacityT;
  BinT bin;
  Bin hints;
  Shared<int> owned[4];

  /// The calling thread has block `i` and writes into it.
  void own(unsigned i) {
    require(owned[i].get() == 0, "a block was handed out twice");
    owned[i].set(1);
  }
  void free(unsigned i) {
    owned[i].set(0);
    typename BinT::Put put;
    {
      const StepLimit bound("put", BinT::kPutSteps);
      put = bin.put(i, kCapacity);
    }
    require(!put.was_there, "a block was in the bin twice");
    if (!put.woke && !put.completed) return;
    const StepLimit bound("put into the bin of spans", Bin::kAnnounceSteps);
    hints.announce(0);
  }
  /// The owner's look at the bin of spans: has this one something?
  bool is_told() {
    bool told = false;
    for (std::uint64_t marks = hints.take_marks(); marks; marks &= marks - 1)
      told |= hints.take(static_cast<unsigned>(std::countr_zero(marks)), Bin::kNumbers) != 0;
    return told;
  }
  /// Takes what is in the span and owns it. How many.
  unsigned take_all() {
    unsigned got = 0;
    std::uint64_t marks;
    {
      const StepLimit bound("take marks", 1);
      marks = bin.take_marks();
    }
    for (; marks; marks &= marks - 1) {
      const auto w = static_cast<unsigned>(std::countr_zero(marks));
      const StepLimit bound("take", 6);  // two, and owning up to two blocks
      for (std::uint64_t bits = bin.take(w, kCapacity); bits; bits &= bits - 1, ++got)
        own(w * 2 + static_cast<unsigned>(std::countr_zero(bits)));
    }
    return got;
  }
  unsigned held() { return static_cast<unsigned>(owned[0].get() + owned[1].get() + owned[2].get() + owned[3].get()); }
  /// Everything that was freed must be found by way of the hints alone.
  void find_all(unsigned count) {
    unsigned found = held();
    if (is_told()) found += take_all();
    require(found == count, "a block is lost");
    require(!bin.is_complete(kCapacity / 2), "a bin from which blocks were taken counts as complete");
  }
};

struct TwoFreesOfAWord : Span<4> {
  static constexpr unsigned kThreads = 3;
  TwoFreesOfAWord() { own(0), own(1); }
  void run(unsigned thread) {
    if (thread < 2) free(thread);
    else if (is_told()) take_all();
  }
  void finish() { find_all(2); }
};

struct TwoFreesOfTwoWords : Span<4> {
  static constexpr unsigned kThreads = 3;
  TwoFreesOfTwoWords() { own(1), own(2); }
  void run(unsigned thread) {
    if (thread < 2) free(thread + 1);
    else if (is_told()) take_all();
  }
  void finish() { find_all(2); }
};

struct FreesAgainstTakes : Span<4> {  // the owner looks twice, and does not wait to be told
  static constexpr unsigned kThreads = 2;
  FreesAgainstTakes() { own(0), own(1), own(2); }
  void run(unsigned thread) {
    if (thread == 0) free(0), free(1), free(2);
    else take_all(), take_all();
  }
  void finish() {
    take_all();  // what no mark announces is lost
    require(held() == 3, "a block is lost");
  }
};

/// Frees complete the span; its owner, told so, uses it for something else: blocks of the new use are opened and owned. A free
/// that was late with its mark may disturb nothing.
template <class Used>
struct UsedAgain : Used {
  static constexpr unsigned kThreads = 3;
  Atomic<int> uses;
  UsedAgain() { this->own(0), this->own(1); }
  void run(unsigned thread) {
    if (thread < 2) return this->free(thread);
    if (!this->is_told() || !this->bin.is_complete(Used::kCapacity / 2)) return;
    reuse();
  }
  void reuse() {
    this->bin.restart();
    uses.store(1, Order::relaxed);
    this->bin.open(0);
    this->own(0), this->own(1);
    this->free(0);
    this->take_all();
  }
  void finish() {
    if (!uses.load(Order::relaxed)) {
      require(this->is_told(), "nobody was told that the span is complete");
      require(this->bin.is_complete(Used::kCapacity / 2), "a complete span does not count as one");
      return reuse();
    }
    require(this->owned[0].get() == 1 && this->owned[1].get() == 1, "a block of the new use was disturbed");
    this->take_all();
    require(!this->bin.is_complete(Used::kCapacity / 2), "the span in use counts as complete");
  }
};
struct CompletedAndUsedAgain : UsedAgain<Span<2>> {};

/// While the last blocks come home the owner takes some of them: the count of full words must come out right.
struct CompletedAgainstTakes : Span<2> {
  static constexpr unsigned kThreads = 2;
  CompletedAgainstTakes() { own(0), own(1); }
  void run(unsigned thread) {
    if (thread == 0) {
      free(0), free(1);
    } else {
      const unsigned got = take_all();
      if (got && bin.is_complete(kCapacity / 2)) require(false, "complete although blocks are out");
    }
  }
  void finish() {
    const bool out = owned[0].get() || owned[1].get();
    require(bin.is_complete(kCapacity / 2) == !out, "the count of full words is wrong");
  }
};

TEST(WaitFreeBin, TwoFreesOfAWord) { check<TwoFreesOfAWord>("two frees of a word against the owner"); }
TEST(WaitFreeBin, TwoFreesOfTwoWords) { check<TwoFreesOfTwoWords>("two frees of two words against the owner"); }
TEST(WaitFreeBin, FreesAgainstTakes) { check<FreesAgainstTakes>("three frees against two takes"); }
TEST(WaitFreeBin, CompletedAndUsedAgain) { check<CompletedAndUsedAgain>("completed by two, used again by the owner"); }
TEST(WaitFreeBin, CompletedAgainstTakes) { check<CompletedAgainstTakes>("completed against a take"); }

// Those that order marks against words forbid that a mark is seen before its bit: a cycle of program order and reads-from, which
// C++ allows relaxed accesses and the explorer's memory model, like RC11, does not. That of restart() orders the next owner.
TEST(WaitFreeBin, EveryOrderIsNeeded) {
  const std::vector<std::string> needless =
      needless_orders<TwoFreesOfAWord, TwoFreesOfTwoWords, FreesAgainstTakes, CompletedAndUsedAgain, CompletedAgainstTakes>(
          "WaitFreeBin<");
  EXPECT_EQ(needless, (std::vector<std::string>{"announce: or into", "put: or into", "restart: exchange", "take_marks: exchange"}));
}

// The bin's own bugs, as the first versions of such a bin have them: each must be found.

/// Marks the word before the block is in it.
struct MarksFirst : Bin {
  Put put(unsigned i, unsigned capacity) noexcept {
    Put result;
    result.woke = marks.fetch_or(1u << i / 2, Order::acq_rel) == 0;
    const Put inner = Bin::put(i, capacity);
    result.completed = inner.completed;
    return result;
  }
  std::uint64_t take_marks() noexcept { return marks.exchange(0, Order::acq_rel); }
  Atomic<std::uint64_t> marks;
};
/// Tells only who completes, not who wakes.
struct NeverWakes : Bin {
  Put put(unsigned i, unsigned capacity) noexcept {
    Put result = Bin::put(i, capacity);
    result.woke = false;
    return result;
  }
};
/// Takes a word by reading and writing it.
struct TakesInTwoSteps {
  using Put = Bin::Put;
  static constexpr unsigned kPutSteps = 3;
  Atomic<std::uint64_t> word;
  Put put(unsigned i, unsigned) noexcept { return {.woke = word.fetch_or(1u << i, Order::acq_rel) == 0}; }
  std::uint64_t take_marks() noexcept { return 1; }
  std::uint64_t take(unsigned, unsigned) noexcept {
    const std::uint64_t bits = word.load(Order::acquire);
    word.store(0, Order::release);
    return bits;
  }
  bool is_complete(unsigned) const noexcept { return false; }
};
template <class BinT>
struct Seeded : Span<4, BinT> {
  static constexpr unsigned kThreads = 3;
  Seeded() { this->own(0), this->own(1); }
  void run(unsigned thread) {
    if (thread < 2) this->free(thread);
    else if (this->is_told()) this->take_all();
    else if (std::is_same_v<BinT, MarksFirst>) this->take_all();
  }
  void finish() { this->find_all(2); }
};

TEST(WaitFreeBin, FindsAMarkBeforeItsBlock) { EXPECT_TRUE(explore<Seeded<MarksFirst>>().found("a block is lost")); }
TEST(WaitFreeBin, FindsAForgottenWake) { EXPECT_TRUE(explore<Seeded<NeverWakes>>().found("a block is lost")); }
TEST(WaitFreeBin, FindsATakeInTwoSteps) { EXPECT_TRUE(explore<Seeded<TakesInTwoSteps>>().found("a block is lost")); }

}  // namespace
}  // namespace mortise::model
