// If this failed, memory would be asked for on one node and used on another, on every machine that has several.
#include "mortise/os/nodes.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mortise::test {
namespace {

class Nodes : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / ("nodes-" + std::to_string(::getpid()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  os::NodeMap read() { return os::read_nodes(root_.c_str()); }

  std::filesystem::path root_;
};

TEST_F(Nodes, AMachineThatSaysNothingHasOne) { EXPECT_EQ(read().count, 1u); }

TEST_F(Nodes, OneNodeIsReadNoFurther) {
  put("has_cpu", "0");
  EXPECT_EQ(read().count, 1u);
}

TEST_F(Nodes, CpusBelongToTheNodeThatListsThem) {
  put("has_cpu", "0-1");
  put("node0/cpulist", "0-3,8-11");
  put("node1/cpulist", "4-7,12-15");
  const os::NodeMap map = read();
  EXPECT_EQ(map.count, 2u);
  for (unsigned cpu = 0; cpu < 16; ++cpu) EXPECT_EQ(map.of_cpu[cpu], cpu / 4 % 2) << cpu;
}

TEST_F(Nodes, NumbersWithGapsAndNodesWithoutCpusAreNoNodesOfTheirOwn) {
  put("has_cpu", "0,8");
  put("node0/cpulist", "0,2,4");
  put("node1/cpulist", "");  // memory only
  put("node8/cpulist", "1,3,1023");
  const os::NodeMap map = read();
  EXPECT_EQ(map.count, 2u);
  EXPECT_EQ(map.of_cpu[1], 1);
  EXPECT_EQ(map.of_cpu[1023], 1);
  EXPECT_EQ(map.of_cpu[4], 0);
}

TEST_F(Nodes, OfMoreNodesThanThereAreHeapsSeveralShareOne) {
  put("has_cpu", "0-11");
  for (unsigned n = 0; n < 12; ++n) put("node" + std::to_string(n) + "/cpulist", std::to_string(n));
  const os::NodeMap map = read();
  EXPECT_EQ(map.count, os::kNodesMax);
  for (unsigned cpu = 0; cpu < 12; ++cpu) EXPECT_EQ(map.of_cpu[cpu], cpu % os::kNodesMax);
}

TEST_F(Nodes, CpusBeyondTheTablesAreLeftOut) {
  put("has_cpu", "0-1");
  put("node0/cpulist", "0-1");
  put("node1/cpulist", "2-3,1024-2047");
  const os::NodeMap map = read();
  EXPECT_EQ(map.count, 2u);
  EXPECT_EQ(map.of_cpu[3], 1);
}

TEST_F(Nodes, BrokenFilesAreOneNode) {
  for (const char* text : {"", "-1", "x", "0-", "3-1", "99999999999999999999"}) {
    put("has_cpu", text);
    EXPECT_EQ(read().count, 1u) << text;
  }
}

TEST_F(Nodes, AUserNamesTheCpusOfEach) {
  os::NodeMap map;
  ASSERT_TRUE(os::parse_nodes("0-1+4;2-3;1023", map));
  EXPECT_EQ(map.count, 3u);
  const unsigned wanted[] = {0, 0, 1, 1, 0, 0};
  for (unsigned cpu = 0; cpu < 6; ++cpu) EXPECT_EQ(map.of_cpu[cpu], wanted[cpu]) << cpu;
  EXPECT_EQ(map.of_cpu[1023], 2);
  for (const char* text : {"", ";", "0;", ";0", "0;0", "0-1;1", "0+", "1-0", "0,1", "0;1 ", "1024", "0-9999999999", "a", "0;1;2;3;4;5;6;7;8"})
    EXPECT_FALSE(os::parse_nodes(text, map)) << text;
}

TEST_F(Nodes, AProgramBoundToOneNodeHasOne) {
  cpu_set_t before, bound;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  os::NodeMap map;
  map.count = 2;
  map.of_cpu[first] = 1;
  EXPECT_EQ(os::nodes_allowed(map).count, CPU_COUNT(&before) > 1 ? 2u : 1u);
  CPU_ZERO(&bound);
  CPU_SET(first, &bound);
  ASSERT_EQ(::sched_setaffinity(0, sizeof bound, &bound), 0);
  EXPECT_EQ(os::nodes_allowed(map).count, 1u);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace mortise::test
