// If this fails, an object of a pool is lost or handed out twice when another core collects what lies before this one: the
// shipped magazines are run with sections that are interrupted at every step.
#include "mortise/pool/magazines.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "explorer/hooks.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

constexpr unsigned kBlocks = 4;
alignas(1024) std::byte g_room[pools::Magazines::kTableBytes + pools::Magazines::kSetsBytes];

/// Threads on two cores, blocks that show who owns them, and a lock's worth of order between those who shut.
struct Cores {
  pools::Magazines magazines;
  std::byte block[kBlocks];
  Shared<int> owned[kBlocks];
  Atomic<unsigned> collected;

  explicit Cores(unsigned warm) {
    std::memset(g_room + pools::Magazines::kTableBytes, 0, 4 * sizeof(pools::Magazines::Set));
    magazines.start(g_room, {.is_kernels = true}, pool_front::cores, 2);
    magazines.make_own(false);
    for (unsigned i = 0; i < kBlocks; ++i) owned[i].set(1);
    for (unsigned i = 0; i < warm; ++i) give(i);
  }
  void take() {
    std::byte* const p = magazines.pop_hit();
    if (!p) return;
    require(owned[p - block].get() == 0, "a block was handed out twice");
    owned[p - block].set(1);
  }
  void give(unsigned i) {
    owned[i].set(0);
    if (!magazines.push_hit(&block[i])) owned[i].set(1);
  }
  void collect() {
    magazines.shut_all([this](std::byte* const* blocks, unsigned n) { gather(blocks, n); });
  }
  void gather(std::byte* const* blocks, unsigned n) {
    for (unsigned k = 0; k < n; ++k) {
      const auto bit = 1u << (blocks[k] - block);
      require((collected.fetch_or(bit, Order::acq_rel) & bit) == 0, "a block was collected twice");
      require(owned[blocks[k] - block].get() == 0, "a block was collected that the program holds");
    }
  }
  void finish() {
    collect();
    unsigned held = 0;
    for (unsigned i = 0; i < kBlocks; ++i) held |= unsigned(owned[i].get()) << i;
    require((held & collected.load(Order::relaxed)) == 0, "a block is collected and with the program");
    require((held | collected.load(Order::relaxed)) == (1u << kBlocks) - 1, "a block is lost");
  }
};

struct CollectAgainstUse : Cores {
  static constexpr unsigned kThreads = 2;
  CollectAgainstUse() : Cores(1) {}
  void run(unsigned number) {
    hooks::run_on_core(static_cast<int>(number));
    if (number == 1) {
      collect();
      magazines.open_all();
    } else {
      take();
      give(2);
    }
  }
};

struct CollectWhileTwoShareACore : Cores {
  static constexpr unsigned kThreads = 3;
  CollectWhileTwoShareACore() : Cores(1) {}
  void run(unsigned number) {
    hooks::run_on_core(number == 2 ? 1 : 0);
    if (number == 2) {
      collect();
      magazines.open_all();
    } else if (number == 1) {
      take();
    } else {
      give(2);
    }
  }
};

/// What a core got at once and its magazine had no room for goes on to the shared part: another thread of the core filled it.
struct KeepWhileTwoShareACore : Cores {
  static constexpr unsigned kThreads = 2;
  KeepWhileTwoShareACore() : Cores(0) {}
  void run(unsigned number) {
    hooks::run_on_core(0);
    if (number == 1) return give(0);
    std::byte* const got[] = {&block[1], &block[2]};
    for (unsigned i = 1; i <= 2; ++i) owned[i].set(0);
    magazines.keep(got, 2, [this](std::byte* const* rest, unsigned n) { gather(rest, n); });
  }
};

const Options kOnce{.aborts_max = 1};

TEST(PoolMagazines, CollectAgainstUse) { run<CollectAgainstUse>("a core collects what another uses", kOnce); }
TEST(PoolMagazines, CollectWhileTwoShareACore) { run<CollectWhileTwoShareACore>("the same, used by two threads", kOnce); }

TEST(PoolMagazines, KeepWhileTwoShareACore) { run<KeepWhileTwoShareACore>("a chain is kept while another thread of the core frees", kOnce); }

}  // namespace
}  // namespace mortise::model
