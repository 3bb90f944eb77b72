// If this failed, a program in a container would take memory until the system ends it, or caches for cores it may not use.
#include "mortise/os/control_group.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mortise::test {
namespace {

class ControlGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("groups-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    root_ = folder_ / "root";
    own_ = folder_ / "own";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void belongs_to(const std::string& text) { std::ofstream(own_) << text; }
  os::GroupFiles files() { return {own_.c_str(), root_.c_str()}; }

  std::filesystem::path folder_, root_, own_;
};

TEST_F(ControlGroup, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(os::memory_in_group(files()), os::kNoGroupLimit);
  EXPECT_EQ(os::cpus_in_quota(7, files()), 7u);
}

TEST_F(ControlGroup, OfVersion2TheSmallestOnTheWayUpCounts) {
  belongs_to("0::/system.slice/app.service/part\n");
  put("system.slice/app.service/part/memory.max", "max");
  put("system.slice/app.service/memory.max", "3000000");
  put("system.slice/memory.max", "5000000");
  put("system.slice/app.service/part/cpu.max", "max 100000");
  put("system.slice/cpu.max", "250000 100000");
  EXPECT_EQ(os::memory_in_group(files()), 3000000u);
  EXPECT_EQ(os::cpus_in_quota(16, files()), 3u);
  EXPECT_EQ(os::cpus_in_quota(2, files()), 2u);
}

TEST_F(ControlGroup, OfVersion1EachControllerHasAGroupOfItsOwn) {
  belongs_to("12:cpu,cpuacct:/batch\n7:memory:/jobs/one\n3:memory_other:/wrong\n1:name=systemd:/\n0::/\n");
  put("memory/jobs/one/memory.limit_in_bytes", "9223372036854771712");  // none
  put("memory/jobs/memory.limit_in_bytes", "123456789");
  put("memory/wrong/memory.limit_in_bytes", "1");
  put("cpu/batch/cpu.cfs_quota_us", "150000");
  put("cpu/batch/cpu.cfs_period_us", "100000");
  put("cpu/cpu.cfs_quota_us", "-1");
  put("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(os::memory_in_group(files()), 123456789u);
  EXPECT_EQ(os::cpus_in_quota(16, files()), 2u);
}

TEST_F(ControlGroup, InAContainerTheRootIsTheOwnGroupWhateverThePathSays) {
  belongs_to("9:memory:/docker/0123456789abcdef\n0::/docker/0123456789abcdef\n");
  put("memory/memory.limit_in_bytes", "44000000");
  EXPECT_EQ(os::memory_in_group(files()), 44000000u);
  put("memory.max", "33000000");
  EXPECT_EQ(os::memory_in_group(files()), 33000000u);
}

TEST_F(ControlGroup, HostsWithBothVersionsAreReadInBoth) {
  belongs_to("4:memory:/a\n0::/b\n");
  put("unified/b/memory.max", "22000000");
  put("memory/a/memory.limit_in_bytes", "55000000");
  EXPECT_EQ(os::memory_in_group(files()), 22000000u);
}

TEST_F(ControlGroup, BrokenFilesAreNoLimit) {
  belongs_to("nonsense\n\n::\n:memory");
  put("memory.max", "a lot");
  put("cpu.max", "100000");
  EXPECT_EQ(os::memory_in_group(files()), os::kNoGroupLimit);
  EXPECT_EQ(os::cpus_in_quota(5, files()), 5u);
}

}  // namespace
}  // namespace mortise::test
