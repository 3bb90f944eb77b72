// If this fails, a layer forgets a thread, whose blocks then stay with it for ever, or looks at the record of one that has ended.
#include "mortise/data/thread_list.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortise::test {
namespace {

struct Record {
  Shared<Record*> next, prev;
};

std::vector<const Record*> members(const ThreadList<Record>& list) {
  std::vector<const Record*> found;
  for (const Record* r = list.first(); r; r = r->next) found.push_back(r);
  return found;
}

TEST(ThreadList, HoldsThoseThatCameAndHaveNotGone) {
  ThreadList<Record> list;
  Record a, b, c;
  for (Record* r : {&a, &b, &c}) list.push(r);
  EXPECT_EQ(members(list), (std::vector<const Record*>{&c, &b, &a}));
  list.remove(&b);  // in the middle
  EXPECT_EQ(members(list), (std::vector<const Record*>{&c, &a}));
  list.remove(&c);  // the first
  list.remove(&a);  // the only one
  EXPECT_EQ(list.first(), nullptr);
  list.push(&b);  // again
  EXPECT_EQ(members(list), (std::vector<const Record*>{&b}));
}

}  // namespace
}  // namespace mortise::test
