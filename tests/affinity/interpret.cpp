// If this fails, the analysis sees stores that the program does not do: affinity would be read off code that never ran. Every
// snippet is run for real and by the interpreter from the same state; what the interpreter says it knows must be what happened.
#include "affinity/observe/interpret.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <random>
#include <string>
#include <thread>

namespace mortise::affinity {
namespace {

constexpr std::size_t kWords = 64;
constexpr std::uintptr_t kNowhere = 16;  // a return address that no module owns

using Snippet = long (*)(long, long, std::uint64_t*);

struct Ground {
  alignas(64) std::uint64_t memory[kWords];
  alignas(64) std::uint64_t stack[1024];
};

const char* const kSnippets[] = {"arithmetic", "narrow",    "comparisons", "overflow", "selection", "loop",        "list_push", "list_self",
                                 "clear",      "copy",      "structure",   "recursion", "indirect", "tree_insert", "bits"};

std::string library(const std::string& level) { return std::string(MORTISE_AFFINITY_DIR) + "/libsnippets-" + level + ".so"; }

class Snippets : public testing::TestWithParam<const char*> {
 protected:
  Snippets() : ground_(std::make_unique<Ground>()), code_(std::make_unique<Code>()), interpreter_(std::make_unique<Interpreter>()) {}

  // A call of `f` about to begin: the return address is on the stack.
  Start start_of(Snippet f, long a, long b) {
    Start s{reinterpret_cast<std::uintptr_t>(f), {}, 0, 0};
    for (unsigned r : {kRbx, kRbp, std::uint8_t{12}, std::uint8_t{13}, std::uint8_t{14}, std::uint8_t{15}}) s.general[r] = Value::of(r);
    s.general[kRdi] = Value::of(static_cast<std::uint64_t>(a));
    s.general[kRsi] = Value::of(static_cast<std::uint64_t>(b));
    s.general[kRdx] = Value::of(reinterpret_cast<std::uintptr_t>(ground_->memory));
    ground_->stack[1000] = kNowhere;
    s.general[kRsp] = Value::of(reinterpret_cast<std::uintptr_t>(ground_->stack + 1000));
    return s;
  }

  std::unique_ptr<Ground> ground_;
  std::unique_ptr<Code> code_;
  std::unique_ptr<Interpreter> interpreter_;
};

TEST_P(Snippets, DoWhatTheProcessorDoes) {
  void* const so = dlopen(library(GetParam()).c_str(), RTLD_NOW);
  ASSERT_TRUE(so) << dlerror();
  std::mt19937_64 random(7);
  unsigned known = 0, all = 0;
  for (const char* name : kSnippets) {
    const auto f = reinterpret_cast<Snippet>(dlsym(so, name));
    ASSERT_TRUE(f) << name;
    for (int round = 0; round < 200; ++round) {
      const long a = round % 3 ? static_cast<long>(random()) : static_cast<long>(random() % 64);
      const long b = round % 5 ? static_cast<long>(random()) : a;
      for (auto& word : ground_->memory) word = random();
      std::uint64_t before[kWords];
      std::copy(std::begin(ground_->memory), std::end(ground_->memory), before);
      const Outcome outcome = interpreter_->run(*code_, start_of(f, a, b), nullptr);
      ASSERT_TRUE(std::equal(std::begin(before), std::end(before), ground_->memory)) << name << ": the program's memory changed";
      ASSERT_EQ(outcome.stop, Stop::outside) << name << " stopped after " << outcome.steps << " steps: " << name_of(outcome.stop);
      std::uint64_t said[kWords];
      bool is_known[kWords];
      ShadowMemory& memory = interpreter_->machine().memory();
      for (std::size_t i = 0; i < kWords; ++i) {
        bool readable = true;
        const Value v = memory.load(reinterpret_cast<std::uintptr_t>(ground_->memory + i), 8, readable);
        said[i] = v.bits, is_known[i] = v.known;
        ASSERT_TRUE(readable);
      }
      const Value rax = interpreter_->machine().general(kRax);
      const long result = f(a, b, ground_->memory);
      ASSERT_TRUE(!rax.known || static_cast<long>(rax.bits) == result) << name << '(' << a << ", " << b << ") gave " << result;
      for (std::size_t i = 0; i < kWords; ++i)
        ASSERT_TRUE(!is_known[i] || said[i] == ground_->memory[i]) << name << '(' << a << ", " << b << ") word " << i;
      for (std::size_t i = 0; i < kWords; ++i) known += is_known[i];
      known += rax.known;
      all += kWords + 1;
      for (const unsigned r : {kRbx, kRbp, std::uint8_t{12}, std::uint8_t{15}})
        ASSERT_EQ(interpreter_->machine().general(r).bits, r) << name << ": a callee-saved register came back different";
    }
  }
  std::printf("%s: %.2f %% of the words known\n", GetParam(), 100.0 * known / all);
  EXPECT_GE(known * 100.0, all * 98.0) << "the interpreter is right, but knows too little";
}
INSTANTIATE_TEST_SUITE_P(Levels, Snippets, testing::Values("O0", "O1", "O2", "O3", "Os"),
                         [](const auto& level) { return std::string(level.param); });

// -- limits

__attribute__((noinline)) long forever(long a, long, std::uint64_t*) {
  for (;;) asm volatile("" : "+r"(a));
}
__attribute__((noinline)) long writes(long, long, std::uint64_t* m) {
  for (long i = 0; i < 2000; ++i) *reinterpret_cast<volatile std::uint64_t*>(m + i) = 1;
  return 0;
}
__attribute__((noinline)) long reads(long a, long, std::uint64_t*) { return *reinterpret_cast<volatile long*>(a); }

using Limits = Snippets;
TEST_F(Limits, EndWhatDoesNotEnd) {
  EXPECT_EQ(interpreter_->run(*code_, start_of(forever, 1, 1), nullptr).stop, Stop::step_limit);
  EXPECT_EQ(interpreter_->run(*code_, start_of(writes, 1, 1), nullptr).stop, Stop::shadow_full);
}

TEST_F(Limits, SurviveMemoryThatIsNotThere) {
  void* const gone = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const forbidden = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, 4096);
  const auto all = [&] {
    for (const auto address : {reinterpret_cast<long>(gone), reinterpret_cast<long>(forbidden), 0L, 8L, -16L, 1L << 50})
      EXPECT_EQ(interpreter_->run(*code_, start_of(reads, address, 0), nullptr).stop, Stop::unreadable) << std::hex << address;
    EXPECT_EQ(interpreter_->run(*code_, start_of(reinterpret_cast<Snippet>(gone), 0, 0), nullptr).stop, Stop::unreadable);
  };
  all();
  std::thread([&] { all(); }).join();  // with a second thread, pages are copied by the kernel
  munmap(forbidden, 4096);
}

// -- what is seen of an object

struct Item {
  Item *next, *prev;
  long key;
};
struct Holder {
  long size;
  Item* first;
};

__attribute__((noinline)) void link(Item* fresh, Holder* holder) {
  fresh->next = holder->first;
  fresh->key = 1;
  holder->first = fresh;
}

TEST_F(Limits, SeeWhereThePointerGoes) {
  Item fresh{}, old{};
  Holder holder{0, &old};
  Start s = start_of(nullptr, 0, 0);
  s.pc = reinterpret_cast<std::uintptr_t>(&link);
  s.general[kRdi] = {reinterpret_cast<std::uintptr_t>(&fresh), true, true};
  s.general[kRsi] = Value::of(reinterpret_cast<std::uintptr_t>(&holder));
  s.object = reinterpret_cast<std::uintptr_t>(&fresh), s.size = sizeof fresh;
  s.general[kRax] = {s.object, true, true};
  interpreter_->run(*code_, s, nullptr);
  const Machine& m = interpreter_->machine();
  // Both lie on this test's stack: the start of the interpretation is on another.
  bool into = false, out_of = false;
  for (unsigned i = 0; i < m.stores(); ++i) {
    const Store& store = m.stored(i);
    into |= store.derived && store.address == reinterpret_cast<std::uintptr_t>(&holder.first);
    out_of |= !store.derived && store.address == s.object && store.value == reinterpret_cast<std::uintptr_t>(&old);
  }
  EXPECT_TRUE(into);
  EXPECT_TRUE(out_of);
  EXPECT_EQ(holder.first, &old) << "the program's memory changed";
}

}  // namespace
}  // namespace mortise::affinity
