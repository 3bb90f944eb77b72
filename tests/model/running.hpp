// How tests run a scenario: as it is, with threads that stop for ever, and with orders that are weakened.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "explorer/explorer.hpp"

namespace mortise::model {

/// Whether searches of many minutes run as well.
inline const bool kAll = std::getenv("MORTISE_TEST_ALL") != nullptr;

/// Runs a scenario in every interleaving that matters; prints the counts.
template <class Scenario>
void run(const std::string& what, const Options& options = {}) {
  const Report report = explore<Scenario>(options);
  EXPECT_TRUE(report.passed()) << what << ": " << report.text();
  std::printf("%s: %s", what.c_str(), report.text().c_str());
}

/// Runs it as it is, then with each thread stopped for ever at each of its steps.
template <class Scenario>
void check(const std::string& what, Options options = {}) {
  run<Scenario>(what, options);
  options.freeze = true;
  run<Scenario>(what + ", each thread stopped at each step", options);
}

/// "void mortise::Bin::push(Link*)" is push.
inline std::string short_name(const std::string& function) {
  const std::size_t end = function.find('(');
  const std::size_t begin = function.rfind(':', end);
  return function.substr(begin + 1, end - begin - 1);
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
