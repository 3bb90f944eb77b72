// The hit path as one compiler makes it at one level of optimisation, run. Prints "restarts N" and exits 0, or says what is wrong.
//
// Sections are interrupted by a timer's signals until the kernel has sent enough of them back to their start.
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mortise/allocators/hslab.hpp"

namespace mortise {

[[noreturn]] void report(Fault fault, Block b) noexcept {
  std::printf("fault %s at %p\n", name_of(fault), static_cast<void*>(b.ptr));
  std::exit(1);
}

}  // namespace mortise

using namespace mortise;

namespace {

constexpr unsigned kRestartsWanted = 20;
thread_local os::OwnArea own_area{};
volatile unsigned restarts = 0;
std::uint64_t state = 7;

unsigned below(unsigned n) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>(state >> 33) % n;
}
void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

/// A section that was interrupted goes on where it is to begin again: the instruction behind the kernel's signature.
void on_timer(int, siginfo_t*, void* context) {
  const auto at = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  std::uint32_t before;
  std::memcpy(&before, reinterpret_cast<const void*>(at - sizeof before), sizeof before);
  if (before == 0x53053053) restarts = restarts + 1;
}
void interrupt_often() {
  struct sigaction action = {};
  action.sa_sigaction = on_timer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every = {{0, 20}, {0, 20}};
  setitimer(ITIMER_REAL, &every, nullptr);
}

using Rack = os::Rack<1>;
Rack rack;
std::byte* slots[16];
std::byte* table[os::kCpusMax];

/// The four sections against a stack of the same blocks.
class Sections {
 public:
  explicit Sections(const os::RseqArea& area) : area_(area) {
    for (auto& set : table) set = reinterpret_cast<std::byte*>(&rack);
    rack.place(0, slots);
    rack.set_limit(0, kLimit);
  }
  void step() {
    std::byte* batch[kLimit];
    const unsigned n = below(kLimit);
    switch (below(8)) {
      case 0: {
        const unsigned got = Rack::take(area_, table, 0, batch, n);
        require(got == (n < count_ ? n : count_), "how many blocks were taken");
        count_ -= got;
        for (unsigned i = 0; i < got; ++i) require(batch[i] == blocks_[count_ + i], "which blocks were taken");
        break;
      }
      case 1: {
        for (unsigned i = 0; i < n; ++i) batch[i] = fresh();
        const unsigned given = Rack::give(area_, table, 0, batch, n);
        require(given == (n < kLimit - count_ ? n : kLimit - count_), "how many blocks were given");
        for (unsigned i = 0; i < given; ++i) blocks_[count_++] = batch[n - 1 - i];
        break;
      }
      case 2: case 3: case 4: {
        std::byte* const p = Rack::pop(area_, table, 0);
        require(p == (count_ ? blocks_[count_ - 1] : nullptr), "which block was popped");
        if (p) --count_;
        break;
      }
      default: {
        std::byte* const p = fresh();
        require(Rack::push(area_, table, 0, p) == (count_ < kLimit), "whether a block was pushed");
        if (count_ < kLimit) blocks_[count_++] = p;
      }
    }
    require(rack.count_now(0) == count_, "how many blocks there are");
  }

 private:
  static constexpr unsigned kLimit = 12;
  std::byte* fresh() { return reinterpret_cast<std::byte*>(++last_ * 16); }

  os::RseqArea area_;
  std::byte* blocks_[kLimit] = {};
  unsigned count_ = 0;
  std::uintptr_t last_ = 0;
};

constinit Hslab heap{};
Hslab::Thread thread{};

[[gnu::noinline]] std::byte* get(std::size_t n) {
  Block b = heap.allocate_hit(thread, {.size = n});
  if (!b) b = heap.allocate(thread, {.size = n});
  require(b && b.size >= n && heap.holds(b.ptr), "a block that is none");
  return b.ptr;
}
[[gnu::noinline]] std::byte* get_without_hit(std::size_t n) { return heap.allocate(thread, {.size = n}).ptr; }
[[gnu::noinline]] void put(std::byte* p) {
  Block b = heap.block_of(p);
  if (b.size_class != kNoClass && heap.release_hit(thread, b)) return;
  heap.release(thread, b.size_class == kNoClass ? heap.measure(b) : b);
}

/// malloc and free of the stack that ships: every block carries a number that no other has, from end to end.
void drive_heap() {
  constexpr unsigned kBlocks = 2000;
  static struct { std::byte* p; std::size_t n; unsigned tag; } live[kBlocks];
  for (unsigned i = 1; i <= 100'000; ++i) {
    auto& one = live[below(kBlocks)];
    if (one.p) {
      unsigned first, last;
      std::memcpy(&first, one.p, sizeof first);
      std::memcpy(&last, one.p + one.n - sizeof last, sizeof last);
      require(first == one.tag && last == one.tag, "a block that another one overlaps");
      put(one.p);
      one.p = nullptr;
      continue;
    }
    one.n = 8 + below(below(2) ? 900 : 6000);
    one.tag = i;
    one.p = below(4) ? get(one.n) : get_without_hit(one.n);
    std::memcpy(one.p, &i, sizeof i);
    std::memcpy(one.p + one.n - sizeof i, &i, sizeof i);
  }
}

}  // namespace

int main() {
  const os::Facts facts = os::read_facts(&own_area);
  require(start_below(heap, facts), "the heap did not start");
  attach_below(heap, thread);
  interrupt_often();
  Sections sections(facts.rseq);
  for (unsigned i = 0; i < 100'000; ++i) sections.step();
  while (facts.rseq.is_kernels && restarts < kRestartsWanted) sections.step();
  drive_heap();
  std::printf("restarts %u\n", restarts);
}
