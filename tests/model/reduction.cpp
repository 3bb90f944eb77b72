// If this fails, the explorer leaves out executions that matter, and a passed model proves nothing: for small random
// programs the reduced search must reach exactly the outcomes that trying every thread at every step reaches.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "explorer/explorer.hpp"
#include "explorer/hooks.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::model {
namespace {

enum class Act { load, store, exchange, add, compare, fence, halves, pair, pop, restart, barrier };

/// How many of the acts a family of programs draws from: single words, pairs too, restartable sequences too, barriers on all threads too.
constexpr unsigned kWordActs = 6, kPairActs = 8, kSequenceActs = 10, kAllActs = 11;

struct Instruction {
  Act act;
  unsigned word;
  Order order;
  unsigned value;
};

constexpr unsigned kWords = 2;
std::vector<std::vector<Instruction>> g_program;
std::set<std::string> g_outcomes;

template <unsigned Threads>
struct RandomProgram {
  static constexpr unsigned kThreads = Threads;
  struct Pair {
    std::uint64_t low, high;
  };
  Atomic<unsigned> words[kWords];
  AtomicPair<Pair> pair;
  Atomic<std::byte*> table[2];
  using Rack = os::Rack<1>;
  Rack racks[2] = {};
  std::byte* slots[2][8];

  RandomProgram() {
    for (unsigned core = 0; core < 2; ++core) {
      table[core].store(reinterpret_cast<std::byte*>(&racks[core]), Order::relaxed);
      racks[core].place(0, slots[core]);
      for (std::uintptr_t block = 1; block <= 8; ++block)
        slots[core][block - 1] = reinterpret_cast<std::byte*>(block);
      racks[core].set_count(0, 8);
    }
  }

  void run(unsigned thread) {
    hooks::run_on_core(Threads == 2 ? 0 : static_cast<int>(thread % 2));
    char saw[16] = {};  // a fiber may be abandoned, so nothing on its stack may own memory
    unsigned count = 0;
    for (const Instruction& i : g_program[thread]) {
      Atomic<unsigned>& word = words[i.word];
      unsigned got = 0;
      switch (i.act) {
        case Act::load:
          got = word.load(i.order);
          break;
        case Act::store:
          word.store(i.value, i.order);
          break;
        case Act::exchange:
          got = word.exchange(i.value, i.order);
          break;
        case Act::add:
          got = word.fetch_add(i.value, i.order);
          break;
        case Act::compare:
          word.compare_exchange_strong(got, i.value, i.order);
          break;
        case Act::fence:
          fence(i.order);
          break;
        case Act::halves: {
          const Pair halves = pair.load_halves(i.order);
          got = static_cast<unsigned>(halves.low * 5 + halves.high);
          break;
        }
        case Act::pair: {
          Pair expected{0, 0};
          pair.compare_exchange(expected, {i.value % 5, i.value % 5});
          got = static_cast<unsigned>(expected.low * 5 + expected.high);
          break;
        }
        case Act::pop:
          got = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(Rack::pop({}, table[0].address(), 0)));
          break;
        case Act::restart:
          os::rseq_restart_all();
          break;
        case Act::barrier:
          os::order_all_threads();
          break;
      }
      saw[count++] = static_cast<char>('a' + got % 26);
    }
    __builtin_memcpy(out[thread], saw, sizeof saw);
  }
  void finish() {
    std::string outcome;
    for (auto& text : out) outcome += std::string(text) + "|";
    for (auto& word : words) outcome += std::to_string(word.load(Order::relaxed)) + " ";
    outcome += std::to_string(pair.load_halves(Order::relaxed).low);
    g_outcomes.insert(outcome);
  }
  char out[Threads][16] = {};
};

Order legal(Act act, unsigned pick) {
  constexpr Order kLoads[] = {Order::relaxed, Order::acquire, Order::seq_cst};
  constexpr Order kStores[] = {Order::relaxed, Order::release, Order::seq_cst};
  constexpr Order kUpdates[] = {Order::relaxed, Order::acquire, Order::release, Order::acq_rel, Order::seq_cst};
  constexpr Order kFences[] = {Order::acquire, Order::release, Order::seq_cst};
  if (act == Act::load || act == Act::halves) return kLoads[pick % 3];
  if (act == Act::store) return kStores[pick % 3];
  if (act == Act::fence) return kFences[pick % 3];
  return kUpdates[pick % 5];
}

void make_program(unsigned seed, unsigned threads, unsigned length, unsigned acts) {
  std::mt19937 random(seed);
  g_program.assign(threads, {});
  unsigned value = 0;
  for (auto& thread : g_program)
    for (unsigned i = 0; i < length; ++i) {
      // Loads and stores twice as often as the rest.
      unsigned pick = random() % (acts + 2);
      const Act act = pick < acts ? static_cast<Act>(pick) : (pick % 2 ? Act::load : Act::store);
      thread.push_back({act, static_cast<unsigned>(random() % kWords), legal(act, random()), ++value});
    }
}

std::string describe() {
  constexpr const char* kActs[] = {"load",  "store",  "exchange", "add", "compare",
                                   "fence", "halves", "pair",     "pop", "restart", "barrier"};
  constexpr const char* kOrders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  std::string text;
  for (auto& thread : g_program) {
    for (const Instruction& i : thread)
      text += std::string(kActs[static_cast<unsigned>(i.act)]) + " " + "xy"[i.word] + " " + std::to_string(i.value) +
              " " + kOrders[static_cast<unsigned>(i.order)] + "; ";
    text += "\n";
  }
  return text;
}

template <unsigned Threads>
void compare_searches(unsigned length, unsigned programs, unsigned acts = kWordActs) {
  const char* given = std::getenv("MORTISE_SEED");
  const unsigned first = given ? std::strtoul(given, nullptr, 10) : 1;
  std::uint64_t reduced_runs = 0, full_runs = 0;
  for (unsigned seed = first; seed < first + programs; ++seed) {
    make_program(seed, Threads, length, acts);
    g_outcomes.clear();
    const Report reduced = explore<RandomProgram<Threads>>({.aborts_max = 1});
    const auto reduced_outcomes = g_outcomes;
    g_outcomes.clear();
    const Report full = explore<RandomProgram<Threads>>({.aborts_max = 1, .reduce = false});
    ASSERT_TRUE(reduced.passed() && full.passed()) << "MORTISE_SEED=" << seed;
    ASSERT_EQ(reduced_outcomes, g_outcomes) << "MORTISE_SEED=" << seed << "\n" << describe();
    reduced_runs += reduced.executions + reduced.pruned;
    full_runs += full.executions;
  }
  std::printf("%u programs of %u threads with %u steps each: %llu executions reduced, %llu full\n", programs, Threads,
              length, (unsigned long long)reduced_runs, (unsigned long long)full_runs);
}

const bool kLong = std::getenv("MORTISE_TEST_ALL") != nullptr;

TEST(Reduction, TwoThreadsReachTheSameOutcomes) { compare_searches<2>(3, kLong ? 20000 : 1500); }
TEST(Reduction, LongerThreadsReachTheSameOutcomes) { compare_searches<2>(4, kLong ? 2000 : 60); }
TEST(Reduction, ThreeThreadsReachTheSameOutcomes) { compare_searches<3>(2, kLong ? 3000 : 150); }

TEST(Reduction, PairsReachTheSameOutcomes) { compare_searches<2>(3, kLong ? 10000 : 300, kPairActs); }
TEST(Reduction, PairsOfThreeThreadsReachTheSameOutcomes) { compare_searches<3>(2, kLong ? 1000 : 50, kPairActs); }
TEST(Reduction, SequencesReachTheSameOutcomes) { compare_searches<2>(3, kLong ? 3000 : 200, kSequenceActs); }
TEST(Reduction, SequencesOfThreeThreadsReachTheSameOutcomes) { compare_searches<3>(2, kLong ? 400 : 30, kSequenceActs); }
TEST(Reduction, BarriersReachTheSameOutcomes) { compare_searches<2>(3, kLong ? 3000 : 600, kAllActs); }
TEST(Reduction, BarriersInLongerThreadsReachTheSameOutcomes) { compare_searches<2>(4, kLong ? 1000 : 40, kAllActs); }

}  // namespace
}  // namespace mortise::model
