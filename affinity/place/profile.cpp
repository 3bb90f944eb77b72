#include "affinity/place/profile.hpp"

#include <signal.h>
#include <time.h>
#include <ucontext.h>

#include "affinity/observe/interpret.hpp"
#include "affinity/seam.hpp"
#include "mortise/os/console.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::affinity {
namespace {

constexpr unsigned kSteps = 48, kPairs = 4096;
constexpr int kSignal = SIGURG;  // ignored where nobody handles it: a program that resets its handlers lives on

struct Pair {
  NodeId a, b;
  std::uint64_t count;
};

struct Profile {
  Code code;
  Interpreter interpreter;
  Atomic<bool> busy{false};
  unsigned per_second = 0;  ///< 0: none are taken
  std::uint64_t samples = 0, touched = 0, in_nodes = 0, dropped_pairs = 0;
  Atomic<std::uint64_t> dropped{0};
  std::uint32_t heat[kNodesMax] = {};
  Pair pairs[kPairs] = {};
};
constinit Profile profile{};

void add_pair(NodeId a, NodeId b) {
  if (b < a) {
    const NodeId c = a;
    a = b, b = c;
  }
  std::uint64_t i = (a * 0x9e3779b97f4a7c15ull ^ b * 0xff51afd7ed558ccdull) >> 40;
  for (unsigned tries = 0; tries < 16; ++tries, ++i) {
    Pair& p = profile.pairs[i % kPairs];
    if (p.count && (p.a != a || p.b != b)) continue;
    p.a = a, p.b = b, ++p.count;
    return;
  }
  ++profile.dropped_pairs;
}

void sample(const greg_t* registers) {
  constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  Start start{static_cast<std::uintptr_t>(registers[REG_RIP]), {}, 0, 0};
  for (unsigned r = 0; r < 16; ++r) start.general[r] = Value::of(static_cast<std::uint64_t>(registers[kOrder[r]]));
  ++profile.samples;
  profile.code.forget();
  profile.interpreter.run(profile.code, start, &profile, kSteps);
  const Machine& m = profile.interpreter.machine();
  NodeId before = kNoNode;
  profile.touched += m.accesses() != 0;
  for (unsigned n = 0; n < m.accesses(); ++n) {
    const NodeId node = node_of(m.access(n));
    if (node == kNoNode || node >= kNodesMax) continue;
    if (before == kNoNode) ++profile.heat[node], ++profile.in_nodes;
    else if (before != node) add_pair(before, node);
    before = node;
  }
}

void on_tick(int, siginfo_t*, void* context) {
  if (profile.busy.exchange(true, Order::acquire)) {
    profile.dropped.fetch_add(1, Order::relaxed);
    return;
  }
  sample(static_cast<ucontext_t*>(context)->uc_mcontext.gregs);
  profile.busy.store(false, Order::release);
}

bool start_timer() noexcept {
  // A POSIX timer: unlike an interval timer it does not outlive exec, where no handler would wait for it.
  struct sigevent event {};
  event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = kSignal;
  int timer = 0;
  const long nanoseconds = 1'000'000'000 / static_cast<long>(profile.per_second);
  const struct itimerspec every {{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000},
                                 {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000}};
  return os::syscall(SYS_timer_create, long{CLOCK_PROCESS_CPUTIME_ID}, &event, &timer) == 0 &&
         os::syscall(SYS_timer_settime, long{timer}, 0L, &every, 0L) == 0;
}

}  // namespace

bool start_profile(unsigned per_second) noexcept {
  os::Line<> line;
  struct sigaction before {}, action {};
  sigaction(kSignal, nullptr, &before);
  if (before.sa_handler != SIG_DFL || per_second == 0 || per_second > 10000) {
    line.text("mortise: affinity_profile=").number(per_second);
    line.text(per_second == 0 || per_second > 10000 ? ": expected 1 to 10000 samples a second"
                                                    : ": the program handles SIGURG itself").text("; not sampled").flush();
    return false;
  }
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigaction(kSignal, &action, nullptr);
  profile.per_second = per_second;
  if (start_timer()) return true;
  profile.per_second = 0;
  line.text("mortise: affinity_profile: the system gives no timer of CPU time; not sampled").flush();
  return false;
}

void hold_profile() noexcept {
  while (profile.busy.exchange(true, Order::acquire)) os::syscall(SYS_sched_yield);  // until another thread's sample is done
}
void release_profile() noexcept { profile.busy.store(false, Order::release); }

/// What the parent's samples say the parent tells.
void restart_profile() noexcept {
  if (profile.per_second && profile.samples) {
    profile.samples = profile.touched = profile.in_nodes = profile.dropped_pairs = 0;
    profile.dropped.store(0, Order::relaxed);
    for (std::uint32_t& heat : profile.heat) heat = 0;
    for (Pair& pair : profile.pairs) pair = {};
  }
  release_profile();
  if (profile.per_second && !start_timer()) profile.per_second = 0;
}

void dump_profile(os::Output& out) noexcept {
  if (!profile.per_second) return;
  hold_profile();
  os::Line<> line;
  line.text("{\"kind\":\"profile\",\"samples\":").number(profile.samples).text(",\"touching_memory\":").number(profile.touched);
  line.text(",\"in_nodes\":").number(profile.in_nodes).text(",\"dropped\":").number(profile.dropped.load(Order::relaxed));
  line.text(",\"dropped_pairs\":").number(profile.dropped_pairs).put('}').flush(out);
  for (NodeId n = 1; n <= last_node() && n < kNodesMax; ++n) {
    if (!profile.heat[n]) continue;
    line.text("{\"kind\":\"heat\",\"node\":").number(n).text(",\"samples\":").number(profile.heat[n]).put('}').flush(out);
  }
  for (const Pair& p : profile.pairs) {
    if (!p.count) continue;
    line.text("{\"kind\":\"pair\",\"a\":").number(p.a).text(",\"b\":").number(p.b);
    line.text(",\"count\":").number(p.count).put('}').flush(out);
  }
  release_profile();
}

}  // namespace mortise::affinity
