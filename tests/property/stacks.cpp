// Random operations of eight logical threads against a model. If this failed, some order of malloc, free and realloc would give a
// program memory that is in use, misaligned or changed behind its back - or would lose memory.
//
//   test-property-stacks --seed=N        replays one seed
//   test-property-stacks --operations=N  of another length
//   MORTISE_TEST_ALL=1                   100 seeds instead of 5
#include <cstdlib>
#include <string_view>

#include "tests/property/operations.hpp"

#ifndef MORTISE_TEST_STACKS  // guards.cpp has its own
#define MORTISE_TEST_STACKS Stacks
#endif

namespace mortise::test {

static std::uint64_t chosen_seed = 0;
static std::size_t operations = 1'000'000;

namespace {

constexpr unsigned kThreads = 8;
constexpr std::size_t kAuditEvery = 1000;

template <class E> class Property : public ::testing::Test {
 public:
  using Heap = Stack<Recorded<typename E::List>>;

  static void run(std::uint64_t seed) {
    SCOPED_TRACE("replay with: test-property-stacks --gtest_filter='*/" + E::name() + ".*' --seed=" + std::to_string(seed));
    State<Heap> state(seed, kThreads, E::kTraits);
    const std::size_t length = operations / E::kTraits.length_divisor;
    for (std::size_t i = 1; i <= length; ++i) {
      perform_any(state);
      if (i % kAuditEvery == 0) state.audit();
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "at operation " << i;
        return;
      }
    }
    drain(state);
  }

 private:
  static void drain(State<Heap>& state) {
    if constexpr (Limits<Heap>) state.stage.heap().set_limit_bytes(kNoLimit);
    while (!state.held.empty()) Release{}.perform(state);
    state.audit();
    for (unsigned i = 0; i < kThreads; ++i) state.stage.detach(i);
    state.audit();
    if constexpr (Tells<Heap>) {
      Usage u;
      state.stage.heap().tell(u);
      EXPECT_TRUE(!E::kTraits.is_exact || u.live == 0) << u.live << " bytes live after everything was released";
    }
    if constexpr (Limits<Heap> && Trims<Heap> && Tells<Heap>) {
      state.stage.as(0, [](auto& h, auto& t) { h.trim(t); });
      Usage u;
      state.stage.heap().tell(u);
      EXPECT_TRUE(!E::kTraits.is_exact || state.stage.heap().taken_bytes() == u.mapped)
          << state.stage.heap().taken_bytes() << " bytes count towards a limit, of " << u.mapped << " that are free";
    }
  }
};
TYPED_TEST_SUITE(Property, MORTISE_TEST_STACKS, EntryNames);

TYPED_TEST(Property, HoldsForRandomOperations) {
  const bool all = std::getenv("MORTISE_TEST_ALL") != nullptr;
  const std::uint64_t first = chosen_seed ? chosen_seed : 1, count = chosen_seed ? 1 : all ? 100 : 5;
  for (std::uint64_t seed = first; seed < first + count && !this->HasFailure(); ++seed) TestFixture::run(seed);
}

}  // namespace
}  // namespace mortise::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--seed=")) mortise::test::chosen_seed = std::strtoull(argv[i] + 7, nullptr, 10);
    else if (argument.starts_with("--operations=")) mortise::test::operations = std::strtoull(argv[i] + 13, nullptr, 10);
    else {
      std::fprintf(stderr, "unknown argument %s: expected --seed=N or --operations=N\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
