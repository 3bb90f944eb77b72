// mortise-count: how many instructions does one call take, at most?
//
//   mortise-count check SHIPPED.so COUNTED.so [--calls N] [--seed S]    both ways of counting must agree on every call
//   mortise-count worst COUNTED.so [--calls N] [--seed S] [--seeds K]   the maximum of each entry point
//
// COUNTED.so is the same source built through instrument.py. Counted are the instructions of the library itself: not
// those of memset and memcpy in libc, and not the kernel's. A restartable sequence that the kernel aborted runs twice;
// such calls are told apart and left out, since how often that happens is the kernel's doing.
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "counted.hpp"
#include "step.hpp"

namespace mortise::count {
namespace {

constexpr std::uint32_t kRestarted =
    ~std::uint32_t{0};                // in place of the count of a call that was aborted and run again
constexpr std::size_t kContext = 12;  // calls shown before the one that took longest

struct Options {
  std::size_t calls = std::getenv("MORTISE_TEST_ALL") ? 100'000 : 5'000;
  std::uint64_t seed = 1, seeds = 1;
};

/// An array that parent and child share.
std::uint32_t* make_shared(std::size_t count) {
  void* const memory = ::mmap(nullptr, count * sizeof(std::uint32_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "mortise-count: no memory for %zu counts; try fewer --calls\n", count);
    std::exit(1);
  }
  return static_cast<std::uint32_t*>(memory);
}

/// One processor, so that core caches are the same in every run; no thread that purges meanwhile.
void settle() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
  ::sched_setaffinity(0, sizeof set, &set);
  ::setenv("MORTISE_CONF", "purge_ms=-1", 1);
}

template <class Body>
pid_t start_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  body();
  std::fflush(nullptr);
  ::_exit(0);
}

void wait_for(pid_t child, const char* what) {
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::fprintf(stderr, "mortise-count: the %s run failed (status %d)\n", what, status);
  std::exit(WIFEXITED(status) && WEXITSTATUS(status) == 2 ? 2 : 1);
}

/// Loads the counting library, carries out the calls and writes down each call's count.
void count_calls(const char* path, const std::vector<Call>& calls, std::uint32_t* counts) {
  static Counters counters;  // in place before the library's constructors run, since they count too
  count_here(counters);
  const Library library = load(path);
  const volatile Counters& seen = counters;
  std::vector<void*> slots(kSlots);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::uint64_t before = seen.instructions, restarts = seen.restarts;
    void* const result = perform(library, calls[i], slots[calls[i].slot], false);
    const auto taken = static_cast<std::uint32_t>(seen.instructions - before);
    counts[i] = seen.restarts == restarts ? taken : kRestarted;
    slots[calls[i].slot] = calls[i].entry == Entry::free ? nullptr : result;
  }
}

void run_marked(const Library& library, const std::vector<Call>& calls) {
  std::vector<void*> slots(kSlots);
  for (const Call& call : calls) {
    void* const result = perform(library, call, slots[call.slot], true);
    slots[call.slot] = call.entry == Entry::free ? nullptr : result;
  }
}

struct Maximum {
  std::uint64_t seed = 0;
  std::size_t index = 0, calls = 0, restarted = 0;
  std::uint32_t count = 0;
  double total = 0;
};
using Maxima = std::array<Maximum, kEntries>;

void gather(Maxima& maxima, const std::vector<Call>& calls, const std::uint32_t* counts, std::uint64_t seed) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Maximum& m = maxima[static_cast<unsigned>(calls[i].entry)];
    ++m.calls;
    if (counts[i] == kRestarted) {
      ++m.restarted;
      continue;
    }
    m.total += counts[i];
    if (counts[i] <= m.count) continue;
    m.count = counts[i];
    m.seed = seed;
    m.index = i;
  }
}

void print(const Maxima& maxima) {
  std::printf("%-14s %10s %10s %12s %10s   %s\n", "entry point", "calls", "mean", "maximum", "restarted", "maximum at");
  for (unsigned i = 0; i < kEntries; ++i) {
    const Maximum& m = maxima[i];
    const std::size_t counted = m.calls - m.restarted;
    std::printf("%-14s %10zu %10.1f %12u %10zu   seed %llu, call %zu\n", name_of(static_cast<Entry>(i)), m.calls,
                counted ? m.total / static_cast<double>(counted) : 0.0, m.count, m.restarted,
                static_cast<unsigned long long>(m.seed), m.index);
  }
}

/// The calls before a maximum. The whole sequence is what the seed makes up to that call.
void print_sequence(const Maximum& m, const std::vector<Call>& calls, const std::uint32_t* counts) {
  std::printf("\n%s, %u instructions; seed %llu, calls %zu to %zu:\n", name_of(calls[m.index].entry), m.count,
              static_cast<unsigned long long>(m.seed), m.index < kContext ? 0 : m.index - kContext, m.index);
  for (std::size_t i = m.index < kContext ? 0 : m.index - kContext; i <= m.index; ++i)
    std::printf("%8zu  %-36s %6u\n", i, text_of(calls[i]).c_str(), counts[i]);
}

int check(const char* shipped, const char* counted, const Options& options) {
  const std::vector<Call> calls = make_calls(options.seed, options.calls);
  std::uint32_t* const fast = make_shared(calls.size());
  std::uint32_t* const slow = make_shared(calls.size());
  wait_for(start_child([&] { count_calls(counted, calls, fast); }), "counting");

  // The child loads the library and says where it lies; it is then in its memory as it is in ours.
  const pid_t child = start_child([&] {
    const Library library = load(shipped);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    run_marked(library, calls);
  });
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  if (!WIFSTOPPED(status)) {
    std::fprintf(stderr, "mortise-count: %s could not be loaded\n", shipped);
    return 2;
  }
  const Library library = load(shipped);  // at the same place: addresses are not randomised
  const std::size_t stepped = step_through(child, library, slow, calls.size());
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);

  std::size_t different = 0, restarted = 0, instructions = 0;
  for (std::size_t i = 0; i < stepped; ++i) {
    instructions += slow[i];
    if (fast[i] == kRestarted) ++restarted;
    else if (fast[i] != slow[i] && ++different <= 10)
      std::printf("call %zu, %s: counted %u, stepped %u\n", i, text_of(calls[i]).c_str(), fast[i], slow[i]);
  }
  Maxima maxima{};
  gather(maxima, calls, fast, options.seed);
  print(maxima);
  std::printf("\n%zu calls, %zu instructions single-stepped; %zu calls restarted by the kernel, %zu counts differ\n",
              stepped, instructions, restarted, different);
  return different == 0 && stepped == calls.size() && restarted < calls.size() / 100 ? 0 : 1;
}

int worst(const char* counted, const Options& options) {
  std::uint32_t* const counts = make_shared(options.calls);
  Maxima maxima{};
  for (std::uint64_t seed = options.seed; seed < options.seed + options.seeds; ++seed) {
    const std::vector<Call> calls = make_calls(seed, options.calls);
    wait_for(start_child([&] { count_calls(counted, calls, counts); }), "counting");
    gather(maxima, calls, counts, seed);
  }
  print(maxima);
  for (const Maximum& m : maxima) {
    if (m.count == 0) continue;
    const std::vector<Call> calls = make_calls(m.seed, options.calls);
    wait_for(start_child([&] { count_calls(counted, calls, counts); }), "counting");
    print_sequence(m, calls, counts);
  }
  return 0;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: mortise-count check SHIPPED.so COUNTED.so [--calls N] [--seed S]\n"
               "       mortise-count worst COUNTED.so [--calls N] [--seed S] [--seeds K]\n");
  std::exit(2);
}

int run(int argc, char** argv) {
  std::vector<const char*> files;
  Options options;
  if (argc < 3) usage();
  for (int i = 2; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2)) {
      files.push_back(argv[i]);
      continue;
    }
    const std::uint64_t number = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 10) : 0;
    if (number == 0) usage();
    if (!std::strcmp(argv[i], "--calls")) options.calls = number;
    else if (!std::strcmp(argv[i], "--seed")) options.seed = number;
    else if (!std::strcmp(argv[i], "--seeds")) options.seeds = number;
    else usage();
    ++i;
  }
  settle();
  if (!std::strcmp(argv[1], "check") && files.size() == 2) return check(files[0], files[1], options);
  if (!std::strcmp(argv[1], "worst") && files.size() == 1) return worst(files[0], options);
  usage();
}

}  // namespace
}  // namespace mortise::count

int main(int argc, char** argv) {
  // Two processes must find everything at the same addresses: an allocator's way may depend on how they are aligned.
  const int now = ::personality(0xffffffff);
  if (!(now & ADDR_NO_RANDOMIZE) && ::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) != -1 &&
      (::personality(0xffffffff) & ADDR_NO_RANDOMIZE))
    ::execv("/proc/self/exe", argv);
  return mortise::count::run(argc, argv);
}
