// If this fails, a pointer that goes to one of two places is seen to go to one only, or to places it never goes to.
#include "affinity/graph/data_flow.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace mortise::affinity {
namespace {

struct Item {
  Item *next, *prev;
  long key;
};
struct Holder {
  Item *first, *last, *odd, *other;
};

#define SNIPPET __attribute__((noinline, noclone))

SNIPPET void either(Item* fresh, Holder* h, long which) {
  if (which) {
    h->first = fresh;
    asm volatile("");
  } else {
    h->last = fresh;
  }
}
SNIPPET void pair(Item* fresh, Holder* h, long) {  // compilers put two pointers with one vector move
  Item* before = h->first;
  fresh->next = before;
  fresh->prev = before;
  h->first = fresh, h->last = fresh;
}
volatile long sink;
void unknown() { sink = 1; }
void (*volatile somewhere)() = unknown;  // the compiler may not know which registers it leaves alone
SNIPPET void across(Item* fresh, Holder* h, long) {
  somewhere();
  h->odd = fresh;
}
SNIPPET void loop(Item* fresh, Holder* h, long n) {
  for (long i = 0; i < n; ++i) {
    if (i & 1) h->odd = fresh;
    asm volatile("" ::: "memory");
  }
  h->other = fresh;
}
SNIPPET void never(Item* fresh, Holder* h, long which) {
  fresh = reinterpret_cast<Item*>(which);
  asm volatile("" : "+r"(fresh));
  h->first = fresh;
}

class DataFlowTest : public testing::Test {
 protected:
  unsigned run(void (*f)(Item*, Holder*, long)) {
    Start s{reinterpret_cast<std::uintptr_t>(f), {}, reinterpret_cast<std::uintptr_t>(&fresh_), sizeof fresh_};
    std::uint64_t stack[64] = {16};
    s.general[kRdi] = {s.object, true, true};
    s.general[kRsi] = Value::of(reinterpret_cast<std::uintptr_t>(&holder_));
    s.general[kRsp] = Value::of(reinterpret_cast<std::uintptr_t>(stack));
    for (unsigned r : {3u, 5u, 12u, 13u, 14u, 15u}) s.general[r] = Value::of(r);
    memory_->begin(s.general[kRsp].bits);
    return flow_->run(*code_, *memory_, s);
  }
  bool stored(Item** where) const {
    for (unsigned n = 0; n < flow_->stores(); ++n)
      if (flow_->stored(n).derived && flow_->stored(n).address == reinterpret_cast<std::uintptr_t>(where)) return true;
    return false;
  }
  bool keeps(Item** where, Item* what) const {
    for (unsigned n = 0; n < flow_->stores(); ++n)
      if (flow_->stored(n).address == reinterpret_cast<std::uintptr_t>(where) &&
          flow_->stored(n).value == reinterpret_cast<std::uintptr_t>(what))
        return true;
    return false;
  }

  // On the heap: what lies on the stack of the test would be its frame.
  std::unique_ptr<Code> code_ = std::make_unique<Code>();
  std::unique_ptr<DataFlow> flow_ = std::make_unique<DataFlow>();
  std::unique_ptr<ForeignMemory> memory_ = std::make_unique<ForeignMemory>();
  static inline Item fresh_, old_;
  static inline Holder holder_{&old_, nullptr, nullptr, nullptr};
};

TEST_F(DataFlowTest, SeesBothWaysOfABranch) {
  run(either);
  EXPECT_TRUE(stored(&holder_.first));
  EXPECT_TRUE(stored(&holder_.last));
  EXPECT_FALSE(stored(&holder_.odd));
}
TEST_F(DataFlowTest, SeesWhatTheObjectIsMadeToPointTo) {
  run(pair);
  EXPECT_TRUE(keeps(&fresh_.next, &old_));
  EXPECT_TRUE(keeps(&fresh_.prev, &old_));
  EXPECT_TRUE(stored(&holder_.first));
  EXPECT_TRUE(stored(&holder_.last));
}
TEST_F(DataFlowTest, GoesOnBehindCalls) {
  run(across);
  EXPECT_TRUE(stored(&holder_.odd));
}
TEST_F(DataFlowTest, ComesToAnEndInLoops) {
  EXPECT_LT(run(loop), DataFlow::kInstructions);
  EXPECT_TRUE(stored(&holder_.odd));
  EXPECT_TRUE(stored(&holder_.other));
}
TEST_F(DataFlowTest, EndsWhereNothingPointsIntoTheObject) {
  EXPECT_LT(run(never), 8u);
  EXPECT_EQ(flow_->stores(), 0u);
}

}  // namespace
}  // namespace mortise::affinity
