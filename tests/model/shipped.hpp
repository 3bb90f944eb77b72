// What the models of shipped bins and queues have in common: blocks whose ownership shows, and the two ways to run a
// scenario.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "explorer/explorer.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise::model {

/// A block as a program sees it: its owner writes all over it, the link included.
struct Block {
  FreeLink link;
  Shared<int> owned;
};

inline FreeLink g_trap;  // mapped, so that a bin which follows a written-over link is caught by a check
inline FreeLink* scribble() { return &g_trap; }

/// The calling thread has got this block: it writes into it. A second owner is a race, or finds it owned.
inline void own(FreeLink* link) {
  auto* const block = reinterpret_cast<Block*>(link);
  require(block->owned.get() == 0, "a block was handed out twice");
  block->owned.set(1);
  link->next.store(scribble(), Order::relaxed);
}

/// The calling thread is about to give it back, and finds it as it left it.
inline void disown(FreeLink* link) {
  auto* const block = reinterpret_cast<Block*>(link);
  require(link->next.load(Order::relaxed) == scribble(), "somebody wrote into a block that was handed out");
  block->owned.set(0);
}

/// At the end: of the first `count` blocks each is either owned by the program or in the bin, once.
template <class Bin>
void check_each_once(Bin& bin, Block* block, unsigned count) {
  unsigned seen = 0, held = 0;
  while (FreeLink* const link = bin.pop()) {
    auto* const found = reinterpret_cast<Block*>(link);
    require(found >= block && found < block + count, "a block came out that never went in");
    require(!(seen & 1u << (found - block)), "a block is in the bin twice");
    require(found->owned.get() == 0, "a block is in the bin and with the program");
    seen |= 1u << (found - block);
  }
  for (unsigned i = 0; i < count; ++i) held |= unsigned(block[i].owned.get()) << i;
  require((seen | held) == (1u << count) - 1, "a block is lost");
}

/// "void mortise::Bin::push(Link*)" is push.
inline std::string short_name(const std::string& function) {
  const std::size_t end = function.find('(');
  const std::size_t begin = function.rfind(':', end);
  return function.substr(begin + 1, end - begin - 1);
}

/// Runs a scenario as it is, then with each thread stopped for ever at each of its steps; prints the counts.
template <class Scenario>
void check(const char* what, Options options = {}) {
  const Report plain = explore<Scenario>(options);
  EXPECT_TRUE(plain.passed()) << plain.text();
  std::printf("%s: %s", what, plain.text().c_str());
  options.freeze = true;
  const Report stopped = explore<Scenario>(options);
  EXPECT_TRUE(stopped.passed()) << stopped.text();
  std::printf("%s, each thread stopped at each step: %s", what, stopped.text().c_str());
}

/// Weakens every order in functions whose name holds `scope`, one at a time, and returns those that no scenario misses,
/// each as "function: operation". What is not needed is either a bug of the scenarios or a cost for nothing.
template <class... Scenarios>
std::vector<std::string> needless_orders(const std::string& scope) {
  std::vector<Site> sites;
  const auto collect = [&](const Report& report) {
    for (const Site& site : report.sites)
      if (site.function.find(scope) != std::string::npos && std::find(sites.begin(), sites.end(), site) == sites.end())
        sites.push_back(site);
  };
  (collect(explore<Scenarios>()), ...);
  std::vector<std::string> needless;
  for (const Site& site : sites) {
    const Options weakened{.steps_max = 200, .weaken = site};
    if ((explore<Scenarios>(weakened).passed() && ...))
      needless.push_back(short_name(site.function) + ": " + site.kind);
  }
  std::printf("%s: %zu of %zu orders are needed\n", scope.c_str(), sites.size() - needless.size(), sites.size());
  std::sort(needless.begin(), needless.end());
  return needless;
}

}  // namespace mortise::model
