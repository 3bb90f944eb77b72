// mortise-freeze COUNTED.so [--steps N]: a thread stopped at any instruction of malloc or free does not delay another's.
//
//   tracer ── steps thread A of the child through its calls, one instruction of the library at a time
//     └─ while A stands still: thread B of the child makes a round of calls - among them frees of A's blocks - and counts each
//
// Succeeds when B ends every round and no call of B's takes more instructions than the bound. With a lock in the allocator B waits
// for a thread that will not go on: the watchdog ends the test and says so.
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "counted.hpp"

namespace mortise::count {
namespace {

constexpr std::uint64_t kMallocMax = 2000, kFreeMax = 300;  // as in mortise-bound
constexpr unsigned kRound = 24, kShared = 256;
constexpr double kWatchdogSeconds = 10;

/// Memory of both processes.
struct Shared {
  std::atomic<unsigned> asked, done;                ///< rounds of B
  std::atomic<pid_t> traced;                        ///< A's number, once it may be traced
  std::atomic<std::uint64_t> malloc_most, free_most, calls;
  std::atomic<bool> failed;
};

/// Blocks that one thread leaves for the other to free.
struct Mailbox {
  std::atomic<void*> place[kShared];
  void* take(unsigned i) { return place[i % kShared].exchange(nullptr); }
  bool leave(unsigned i, void* p) {
    void* nobody = nullptr;
    return place[i % kShared].compare_exchange_strong(nobody, p);
  }
};

std::size_t size_from(Random& random) {
  constexpr std::size_t kSizes[] = {16, 16, 48, 1024, 8192, 24 << 10, 64 << 10};
  return kSizes[random.below(std::size(kSizes))];
}

/// Calls of one thread: it frees what the other has left, keeps some, leaves some.
class Player {
 public:
  Player(const Counted& allocator, std::uint64_t seed, Mailbox& from, Mailbox& to)
      : allocator_(allocator), random_(seed), from_(from), to_(to) {}
  void begin() {
    count_here(counters_);
    std::uint64_t first = 0;
    allocator_.free(allocator_.malloc(1, counters_, first), counters_, first);
  }
  bool step() {
    const auto i = static_cast<unsigned>(random_.below(kShared));
    if (void* const p = random_.below(2) ? from_.take(i) : nullptr) allocator_.free(p, counters_, free_most);
    if (kept_.size() > 300) shrinks_ = true;  // in bursts, so that slots are full and blocks go home
    if (kept_.size() < 20) shrinks_ = false;
    for (unsigned n = shrinks_ ? 3 : random_.below(3) == 0; n; --n) {
      if (kept_.empty()) break;
      void* const p = kept_.back();
      kept_.pop_back();
      if (!to_.leave(i + n, p)) allocator_.free(p, counters_, free_most);
    }
    void* const p = allocator_.malloc(size_from(random_), counters_, malloc_most);
    if (p) kept_.push_back(p);
    return p;
  }
  std::uint64_t malloc_most = 0, free_most = 0;

 private:
  const Counted& allocator_;
  Random random_;
  Mailbox &from_, &to_;
  std::vector<void*> kept_;
  bool shrinks_ = false;
  Counters counters_{};
};

[[noreturn]] void play(const Library& library, Shared& shared) {
  static Mailbox to_a, to_b;
  static const Counted allocator(library);
  std::thread b([&shared] {
    static Player player(allocator, 2, to_b, to_a);
    player.begin();
    for (unsigned round = 1;; ++round) {
      while (shared.asked.load() < round) ::sched_yield();
      for (unsigned i = 0; i < kRound; ++i)
        if (!player.step()) shared.failed = true;
      shared.malloc_most = player.malloc_most;
      shared.free_most = player.free_most;
      shared.calls += kRound;
      shared.done = round;
    }
  });
  std::thread a([&shared] {
    static Player player(allocator, 1, to_a, to_b);
    player.begin();
    for (unsigned i = 0; i < 400; ++i) player.step();
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    shared.traced = ::gettid();  // only now may the parent wait for this thread
    ::raise(SIGSTOP);
    for (;;) player.step();
  });
  a.join();
  std::_Exit(1);
}

double now() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

[[noreturn]] void end(pid_t child, int status, const char* why) {
  ::kill(child, SIGKILL);
  if (why) std::printf("mortise-freeze: %s\n", why);
  std::fflush(stdout);
  std::_Exit(status);
}

int run(const char* path, unsigned long steps) {
  ::setenv("MORTISE_CONF", "reserve_mb=256,on_exhausted=fail,purge_ms=-1", 1);
  static Counters counters;
  count_here(counters);
  const Library library = load(path);  // before the fork: it lies at one place in both processes
  auto& shared = *static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = ::fork();
  if (child == 0) play(library, shared);
  const double begin = now();
  while (!shared.traced)
    if (::sched_yield(), now() - begin > kWatchdogSeconds) end(child, 2, "the child did not begin");
  const pid_t thread = shared.traced;
  int status = 0;
  if (::waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) end(child, 2, "the thread cannot be traced");
  unsigned long inside = 0, rounds = 0;
  while (inside < steps) {
    if (::ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) || ::waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
      end(child, 2, "lost the thread");
    const auto at = static_cast<std::uintptr_t>(::ptrace(PTRACE_PEEKUSER, thread, offsetof(user_regs_struct, rip), nullptr));
    if (at < library.text_begin || at >= library.text_end) continue;
    ++inside;
    shared.asked = static_cast<unsigned>(++rounds);
    for (const double since = now(); shared.done < rounds; ::sched_yield())
      if (now() - since > kWatchdogSeconds) end(child, 1, "a call waits for a thread that is stopped");
  }
  std::printf("one thread stopped at %lu instructions; %llu steps of the other meanwhile: malloc at most %llu instructions, free at most "
              "%llu\n", inside, (unsigned long long)shared.calls, (unsigned long long)shared.malloc_most,
              (unsigned long long)shared.free_most);
  if (shared.failed) end(child, 1, "the reserve was exhausted");
  end(child, shared.malloc_most <= kMallocMax && shared.free_most <= kFreeMax ? 0 : 1, nullptr);
}

}  // namespace
}  // namespace mortise::count

int main(int argc, char** argv) {
  unsigned long steps = std::getenv("MORTISE_TEST_ALL") ? 200'000 : 20'000;
  const char* path = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--steps")) path = argv[i];
    else if (++i < argc) steps = std::strtoul(argv[i], nullptr, 10);
  }
  if (!path || !steps) return std::fprintf(stderr, "usage: mortise-freeze COUNTED.so [--steps N]\n"), 2;
  return mortise::count::run(path, steps);
}
