// If this fails, a thread that waits for an object sleeps although one came back, or two threads get one object out of
// a magazine: the pool's doorbell and its locked magazine are run in every interleaving that matters.
#include <gtest/gtest.h>

#include "mortise/pool/doorbell.hpp"
#include "mortise/pool/locked_magazine.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

/// A stock of counted objects that anybody may look at; the shared part of a pool, made as small as can be.
struct Stock {
  Atomic<int> objects;
  void put() { objects.fetch_add(1, Order::acq_rel); }
  bool take() {
    int n = objects.load(Order::relaxed);
    while (n > 0)
      if (objects.compare_exchange_weak(n, n - 1, Order::acq_rel)) return true;
    return false;
  }
};

template <class Bell>
struct WaitAgainstGive {
  static constexpr unsigned kThreads = 2;
  Bell bell;
  Stock stock;
  void run(unsigned thread) {
    if (thread == 0) {
      bell.enter();
      for (;;) {
        const std::uint32_t seen = bell.seen();
        if (stock.take()) break;
        while (bell.seen() == seen) cpu_relax();  // a sleep that only a ring ends
      }
      bell.leave();
    } else {
      stock.put();
      bell.ring();
    }
  }
  void finish() {
    require(stock.objects.load(Order::relaxed) == 0 && bell.waiters() == 0, "the waiter got the object");
  }
};

struct TwoWaitersAgainstGive {
  static constexpr unsigned kThreads = 3;
  pools::Doorbell bell;
  Stock stock;
  Atomic<int> got;
  void run(unsigned thread) {
    if (thread < 2) {
      bell.enter();
      const std::uint32_t seen = bell.seen();
      if (stock.take()) got.fetch_add(1, Order::relaxed);
      else if (bell.seen() != seen && stock.take()) got.fetch_add(1, Order::relaxed);
      bell.leave();
    } else {
      stock.put();
      bell.ring();
    }
  }
  void finish() {
    require(got.load(Order::relaxed) + stock.objects.load(Order::relaxed) == 1, "the object is somewhere, once");
    require(bell.waiters() == 0, "nobody waits");
  }
};

/// The same bell without its fences: each side may miss the other.
struct SilentBell {
  Atomic<std::uint32_t> waiters_{0}, rings_{0};
  void enter() { waiters_.fetch_add(1, Order::relaxed); }
  void leave() { waiters_.fetch_sub(1, Order::relaxed); }
  std::uint32_t seen() const { return rings_.load(Order::acquire); }
  void ring() {
    if (waiters_.load(Order::relaxed)) rings_.fetch_add(1, Order::release);
  }
  std::uint32_t waiters() const { return waiters_.load(Order::relaxed); }
};

struct Magazine {
  pools::LockedMagazine magazine;
  std::byte block[4];
  Shared<int> owned[4];

  Magazine() {
    std::byte* none[1];
    magazine.set_limit(2, none);
  }
  void own(const std::byte* p) {
    require(owned[p - block].get() == 0, "a block was handed out twice");
    owned[p - block].set(1);
  }
  bool give(unsigned i) {
    owned[i].set(0);
    if (magazine.push(&block[i])) return true;
    owned[i].set(1);
    return false;
  }
  void take() {
    if (std::byte* const p = magazine.pop()) own(p);
  }
  void check_each_once(unsigned count) {
    unsigned held = 0;
    for (std::byte* p; (p = magazine.pop());)
      require(!(held & 1u << (p - block)), "twice inside"), held |= 1u << (p - block);
    for (unsigned i = 0; i < count; ++i) {
      require(!(owned[i].get() && held & 1u << i), "inside and outside");
      held |= unsigned(owned[i].get()) << i;
    }
    require(held == (1u << count) - 1, "a block is lost");
  }
};

struct PushAgainstPops : Magazine {
  static constexpr unsigned kThreads = 3;
  PushAgainstPops() { owned[0].set(1), owned[1].set(1), give(0); }
  void run(unsigned thread) {
    if (thread == 0) give(1);
    else take();
  }
  void finish() { check_each_once(2); }
};

struct ShutAgainstPushAndPop : Magazine {
  static constexpr unsigned kThreads = 3;
  ShutAgainstPushAndPop() { owned[0].set(1), owned[1].set(1), give(0); }
  void run(unsigned thread) {
    if (thread == 0) {
      std::byte* out[pools::LockedMagazine::kSlots];
      const unsigned n = magazine.set_limit(0, out);
      for (unsigned i = 0; i < n; ++i) own(out[i]);
    } else if (thread == 1) {
      give(1);
    } else {
      take();
    }
  }
  void finish() { check_each_once(2); }
};

struct OpenAgainstPushAndPop : Magazine {
  static constexpr unsigned kThreads = 3;
  OpenAgainstPushAndPop() {
    std::byte* none[1];
    magazine.set_limit(0, none);
    owned[0].set(1);
  }
  void run(unsigned thread) {
    if (thread == 0) magazine.try_open(2);
    else if (thread == 1) give(0);
    else take();
  }
  void finish() { check_each_once(1); }
};

/// Chains go in and out while a third thread pushes.
struct GiveAgainstTakeAndPush : Magazine {
  static constexpr unsigned kThreads = 3;
  GiveAgainstTakeAndPush() {
    for (auto& o : owned) o.set(1);
    give(0);
  }
  void run(unsigned thread) {
    if (thread == 0) {
      std::byte* const mine[] = {&block[1], &block[2]};
      for (unsigned i = 1; i <= 2; ++i) owned[i].set(0);
      for (unsigned n = 2 - magazine.give(mine, 2), i = 0; i < n; ++i) own(mine[i]);
    } else if (thread == 1) {
      std::byte* out[2];
      for (unsigned n = magazine.take(out, 2); n > 0;) own(out[--n]);
    } else {
      give(3);
    }
  }
  void finish() { check_each_once(4); }
};

TEST(Doorbell, NoRingIsLost) {
  run<WaitAgainstGive<pools::Doorbell>>("a waiter and a giver");  // a waiter whose giver stops waits, as it must
  check<TwoWaitersAgainstGive>("two waiters and a giver");
}
TEST(Doorbell, ItsFencesAreNeeded) { EXPECT_FALSE(explore<WaitAgainstGive<SilentBell>>().failure.empty()); }

TEST(LockedMagazine, PushAgainstPops) { check<PushAgainstPops>("push against two pops"); }
TEST(LockedMagazine, GiveAgainstTakeAndPush) { check<GiveAgainstTakeAndPush>("two given, two taken and one pushed"); }
TEST(LockedMagazine, OpenAgainstPushAndPop) { check<OpenAgainstPushAndPop>("opened, push and pop"); }
TEST(LockedMagazine, ShutAgainstPushAndPop) { run<ShutAgainstPushAndPop>("shut, push and pop"); }

}  // namespace
}  // namespace mortise::model
