// If this fails, a plan that was made for a program is not followed in it, or is followed in another build of it.
#include "affinity/place/plan.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace mortise::affinity {
namespace {

void here() { asm volatile(""); }

std::string hexadecimal(std::uint64_t n) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(n));
  return text;
}

class PlanTest : public testing::Test {
 protected:
  PlanTest() : base_(reinterpret_cast<std::uintptr_t>(&here)) {
    const Module m = module_of(base_);
    std::uint8_t id[32];
    const std::size_t bytes = build_id_of(m, id, sizeof id);
    EXPECT_GT(bytes, 0u);
    for (std::size_t i = 0; i < bytes; ++i) build_id_ += hexadecimal(id[i] >> 4) + hexadecimal(id[i] & 15);
    bias_ = m.bias;
    own_path_ = program_invocation_name;
  }
  std::string at(std::uintptr_t address) const { return "1+" + hexadecimal(address - bias_); }
  // Nodes: (base), (base+16, base+32) behind a wrapper, (base+16, base+48) in the same pool, (base+64) in its class's.
  std::string plan() const {
    return "mortise-affinity-plan 1\nmodule 1 " + build_id_ + " " + own_path_ +
           "\n# what a run found\n"
           "node class=2 bytes=24 objects=500 heat=3 pool=1 chain=" + at(base_) + "\n"
           "node class=2 bytes=32 objects=500 heat=0 pool=2 chain=" + at(base_ + 16) + "," + at(base_ + 32) + "\n"
           "node class=2 bytes=32 objects=900 heat=0 pool=2 chain=" + at(base_ + 16) + "," + at(base_ + 48) + "\n"
           "node class=3 bytes=48 objects=900 heat=0 pool=0 chain=" + at(base_ + 64) + "\npair 1 2 40\n";
  }
  bool read(const std::string& text) {
    text_ = text;
    plan_ = std::make_unique<Plan>();
    testing::internal::CaptureStderr();
    const bool good = plan_->read(text_.data(), text_.size(), "some.plan");
    said_ = testing::internal::GetCapturedStderr();
    return good;
  }
  PlannedWay ask(std::initializer_list<std::uintptr_t> chain, unsigned size_class) {
    testing::internal::CaptureStderr();
    const PlannedWay way = plan_->ask(chain.begin(), static_cast<unsigned>(chain.size()), size_class);
    said_ += testing::internal::GetCapturedStderr();
    return way;
  }

  std::uintptr_t base_, bias_ = 0;
  std::string build_id_, own_path_, text_, said_;
  std::unique_ptr<Plan> plan_;
};

using Kind = PlannedWay::Kind;

TEST_F(PlanTest, SaysWhereChainsEndAndWhichPoolTheyShare) {
  ASSERT_TRUE(read(plan())) << said_;
  EXPECT_EQ(plan_->nodes(), 4u);
  EXPECT_EQ(ask({base_}, 2).kind, Kind::node);
  EXPECT_TRUE(ask({base_}, 2).has_own_pool);
  EXPECT_EQ(ask({base_}, 3).kind, Kind::unknown) << "another size class";
  EXPECT_EQ(ask({base_ + 16}, 2).kind, Kind::wrapper);
  EXPECT_EQ(ask({base_ + 16, base_ + 32}, 2).kind, Kind::node);
  EXPECT_EQ(ask({base_ + 16, base_ + 33}, 2).kind, Kind::unknown);
  EXPECT_FALSE(ask({base_ + 64}, 3).has_own_pool);
  const std::uintptr_t chain[] = {base_ + 16, base_ + 32};
  EXPECT_EQ(ask({base_ + 16, base_ + 48}, 2).with, kNoNode);
  plan_->made(7, chain, 2, 2);
  EXPECT_EQ(ask({base_ + 16, base_ + 48}, 2).with, 7u);
  EXPECT_EQ(ask({16}, 2).kind, Kind::unknown) << "code of no module";
  EXPECT_EQ(said_, "");
}

TEST_F(PlanTest, RefusesAnotherBuildWithOneLine) {
  build_id_[0] = build_id_[0] == '0' ? '1' : '0';
  ASSERT_TRUE(read(plan()));
  EXPECT_EQ(ask({base_}, 2).kind, Kind::unknown);
  EXPECT_FALSE(plan_->is_followed());
  EXPECT_EQ(ask({base_ + 16}, 2).kind, Kind::unknown);
  const std::string name = own_path_.substr(own_path_.rfind('/') + 1);
  EXPECT_EQ(said_, "mortise: affinity_plan=some.plan: made for another build of " + name +
                       "; make it again with mortise affinity --plan; running without it\n");
}

/// Something of another module than the program.
std::uintptr_t elsewhere() { return reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "abort")); }

TEST_F(PlanTest, TwoModulesOfOneNameInTwoFoldersAreTwoModules) {
  const std::string path = module_of(elsewhere()).path, name = path.substr(path.rfind('/') + 1);
  ASSERT_TRUE(read(plan() + "module 2 abcd /another/folder/" + name + "\n"));
  EXPECT_EQ(ask({elsewhere()}, 2).kind, Kind::unknown);
  EXPECT_EQ(ask({base_}, 2).kind, Kind::node) << said_;
  ASSERT_TRUE(read(plan() + "module 2 abcd " + path + "\n"));
  EXPECT_EQ(ask({elsewhere()}, 2).kind, Kind::unknown);
  EXPECT_NE(said_.find("made for another build of " + name + ";"), std::string::npos) << said_;
}

TEST_F(PlanTest, TheFileMayBeCutWhileItIsFollowed) {
  const std::string file = testing::TempDir() + "cut.plan";
  std::string path = module_of(elsewhere()).path;
  path.back() = 'x';  // as long, so that it is compared
  std::ofstream(file) << plan() << "module 2 abcd " << path << "\n";
  plan_ = std::make_unique<Plan>();
  ASSERT_TRUE(plan_->load(file.c_str()));
  std::filesystem::resize_file(file, 0);
  EXPECT_EQ(ask({elsewhere()}, 2).kind, Kind::unknown);
  EXPECT_EQ(ask({base_}, 2).kind, Kind::node);
  std::filesystem::remove(file);
}

TEST_F(PlanTest, HasRoomForAllNodesOfAProcess) {
  std::string text = plan();
  for (unsigned n = 5; n < kNodesMax; ++n)
    text += "node class=2 bytes=24 objects=5 heat=0 pool=" + std::to_string(n) + " chain=" + at(base_ + 0x1000 + n) + "\n";
  ASSERT_TRUE(read(text)) << said_;
  EXPECT_EQ(plan_->nodes(), kNodesMax - 1);
  EXPECT_EQ(ask({base_ + 0x1000 + kNodesMax - 1}, 2).kind, Kind::node);
}

TEST_F(PlanTest, SaysWhichLineIsWrong) {
  const std::string good = plan();
  const auto broken = [&](const std::string& text, int line) {
    EXPECT_FALSE(read(text)) << text;
    EXPECT_NE(said_.find("line " + std::to_string(line) + " is not of a plan"), std::string::npos) << said_;
    EXPECT_EQ(ask({base_}, 2).kind, Kind::unknown);
  };
  broken("", 1);
  broken("mortise-affinity-plan 2\n", 1);
  broken(good + "node class=2 bytes=24 objects=5 heat=0 pool=1 chain=9+10\n", 9);
  broken(good + "node class=2 bytes=24 objects=5 heat=0 pool=99999999 chain=1+10\n", 9);
  broken(good + "node class=2 bytes=24 objects=5 heat=0 pool=1 chain=1+10", 9);
  broken(good + "nonsense\n", 9);
  broken(good + "module 7 ab x\n", 9);
  for (std::size_t cut = 1; cut < good.size(); cut += 7) read(good.substr(0, cut));  // whatever it says, it comes back
}

TEST_F(PlanTest, SaysThatTheFileIsNotThere) {
  plan_ = std::make_unique<Plan>();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(plan_->load("/nowhere/at.plan"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mortise: affinity_plan=/nowhere/at.plan is not there; make it with mortise affinity --plan; running without it\n");
}

}  // namespace
}  // namespace mortise::affinity
