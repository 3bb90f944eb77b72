// Threads that build and take down lists of small blocks, longer than what a magazine holds at first, on one core and then on
// another, while one thread empties all caches, one makes children that build as well, and one sends signals into the midst of all
// that. Every block is its list's own. For so many milliseconds as it is told, 2000 if none.
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>

#include "life.hpp"

namespace {

constexpr unsigned kBuilders = 3, kLengthMax = 60'000;
std::uint64_t end_ms = 0;
std::atomic<unsigned long> signals{0};

struct Node {
  Node* next;
  std::uint64_t mark;
};

/// Newest first, or all that follow the first before it: the order in which blocks were taken is none that they are freed in.
class List {
 public:
  explicit List(std::uint64_t own) : own_(own) {}
  void grow(std::size_t bytes) {
    auto* const n = static_cast<Node*>(malloc(bytes));
    EXPECT(n);
    n->mark = mark_of(n);
    Node*& at = first_ && count_ % 3 == 0 ? first_->next : first_;
    n->next = at, at = n;
    ++count_;
  }
  void shrink() {
    Node* const n = first_;
    EXPECT(n && n->mark == mark_of(n));
    first_ = n->next;
    n->mark = 0;
    --count_;
    free(n);
  }
  unsigned count() const { return count_; }

 private:
  std::uint64_t mark_of(const Node* n) const { return own_ * 0x9e3779b97f4a7c15u ^ reinterpret_cast<std::uintptr_t>(n); }

  std::uint64_t own_;
  Node* first_ = nullptr;
  unsigned count_ = 0;
};

void go_to_some_core(life::Random& random) {
  static const cpu_set_t allowed = [] {
    cpu_set_t all;
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    return all;
  }();
  cpu_set_t one;
  CPU_ZERO(&one);
  unsigned cpu;
  do cpu = static_cast<unsigned>(random.below(CPU_SETSIZE)); while (!CPU_ISSET(cpu, &allowed));
  CPU_SET(cpu, &one);
  EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
}

void build_and_take_down(std::uint64_t own, unsigned times, bool moves_about) {
  life::Random random(own);
  List lists[3] = {List(own * 4), List(own * 4 + 1), List(own * 4 + 2)};
  for (; times && life::now_ms() < end_ms; --times) {
    if (moves_about && random.below(4) == 0) go_to_some_core(random);
    List& list = lists[random.below(3)];
    const std::size_t bytes = 16 + 16 * random.below(8);
    const unsigned to = static_cast<unsigned>(random.below(random.below(4) ? kLengthMax / 4 : kLengthMax));
    while (list.count() < to) list.grow(bytes);
    const unsigned left = static_cast<unsigned>(random.below(3) ? 0 : random.below(to + 1));
    while (list.count() > left) list.shrink();
  }
  for (List& list : lists)
    while (list.count()) list.shrink();
}

void* builds(void* own) {
  build_and_take_down(reinterpret_cast<std::uintptr_t>(own), ~0u, true);
  return nullptr;
}

/// Threads that come and go: where each has caches of its own, the next one has those.
void* has_others_build(void* own) {
  for (std::uintptr_t i = 1; life::now_ms() < end_ms; ++i) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, [](void* its) -> void* {
      build_and_take_down(reinterpret_cast<std::uintptr_t>(its), 3, true);
      return nullptr;
    }, reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(own) + 16 * i)) == 0);
    EXPECT(pthread_join(thread, nullptr) == 0);
  }
  return nullptr;
}

void* trims(void*) {
  for (; life::now_ms() < end_ms; usleep(3000)) malloc_trim(0);
  return nullptr;
}

void* forks(void*) {
  for (std::uintptr_t own = 1000; life::now_ms() < end_ms; ++own) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      build_and_take_down(own, 4, false);
      malloc_trim(0);
      build_and_take_down(own, 2, false);
      _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) EXPECT(errno == EINTR);
    EXPECT(status == 0);
    usleep(20'000);
  }
  return nullptr;
}

}  // namespace

int main(int arguments, char** argv) {
  end_ms = life::now_ms() + (arguments > 1 ? strtoul(argv[1], nullptr, 10) : 2000);
  struct sigaction action {};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
  pthread_t builder[kBuilders], others[3];
  for (std::uintptr_t i = 0; i < kBuilders; ++i) EXPECT(pthread_create(&builder[i], nullptr, builds, reinterpret_cast<void*>(i + 1)) == 0);
  void* (*const other[])(void*) = {has_others_build, trims, forks};
  for (unsigned i = 0; i < 3; ++i) EXPECT(pthread_create(&others[i], nullptr, other[i], reinterpret_cast<void*>(kBuilders + 1)) == 0);
  for (unsigned i = 0; life::now_ms() < end_ms; ++i, usleep(300)) EXPECT(pthread_kill(builder[i % kBuilders], SIGUSR1) == 0);
  for (const pthread_t thread : builder) EXPECT(pthread_join(thread, nullptr) == 0);
  for (const pthread_t thread : others) EXPECT(pthread_join(thread, nullptr) == 0);
  EXPECT(signals > 0);
  return 0;
}
