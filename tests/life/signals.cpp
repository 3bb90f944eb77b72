// Signals between any two instructions: signals rain (one after another in all threads), signals allocate (its
// handler allocates too, sizes that are hits), signals end (it allocates in threads of which the allocator knows that they end), signals step
// (a trap after each single instruction of misses and hits), signals wait (sent to threads that block them, they are still there after
// the allocator has blocked others).
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "life.hpp"

namespace {

std::atomic<unsigned long> signals{0};

void count(int) { signals.fetch_add(1, std::memory_order_relaxed); }

void count_and_allocate(int) {
  const int error = errno;
  void* p[3];
  for (void*& one : p) {
    one = malloc(24);
    EXPECT(one);
    memset(one, 0x5a, 24);
  }
  for (void* one : p) {
    for (int i = 0; i < 24; ++i) EXPECT(static_cast<unsigned char*>(one)[i] == 0x5a);
    free(one);
  }
  signals.fetch_add(1, std::memory_order_relaxed);
  errno = error;
}

std::atomic<bool> enough{false};

/// Four threads allocate while each gets a signal as soon as it has taken the last one.
int rain() {
  struct sigaction action {};
  action.sa_handler = count;
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      life::Churn churn(i);
      while (!enough) churn.step();
      churn.end();
    });
  for (unsigned long sent = 0; signals < 10'000; ++sent) pthread_kill(threads[sent % 4].native_handle(), SIGUSR1);
  enough = true;
  for (auto& t : threads) t.join();
  printf("%lu signals\n", signals.load());
  return 0;
}

int allocate() {
  for (int warm = 0; warm < 2000; ++warm) {  // the caches are filled, so that what follows hits
    void* p[30];
    for (void*& one : p) one = malloc(24);
    for (void* one : p) free(one);
    for (int i = 0; i < 10; ++i) p[i] = malloc(24);
    for (int i = 0; i < 10; ++i) free(p[i]);
  }
  struct sigaction action {};
  action.sa_handler = count_and_allocate;
  EXPECT(sigaction(SIGALRM, &action, nullptr) == 0);
  struct itimerval every {};
  every.it_value.tv_usec = every.it_interval.tv_usec = 20;
  EXPECT(setitimer(ITIMER_REAL, &every, nullptr) == 0);
  unsigned char* held[4] = {};
  for (unsigned long step = 0; signals < 20'000; ++step) {
    unsigned char*& p = held[step % 4];
    if (p) {
      for (int i = 0; i < 24; ++i) EXPECT(p[i] == static_cast<unsigned char>(step % 4));
      free(p);
    }
    p = static_cast<unsigned char*>(malloc(24));
    memset(p, static_cast<int>(step % 4), 24);
  }
  every = {};
  setitimer(ITIMER_REAL, &every, nullptr);
  printf("%lu signals\n", signals.load());
  return 0;
}

thread_local volatile bool has_ended = false;
std::atomic<bool> has_gone{false};

/// Behind the allocator's own destructor: it was there when the program's key was made. Until a thousand handlers more have run.
void go_on(void*) {
  has_ended = true;
  for (const unsigned long end = signals + 1000; signals < end;) {
    unsigned char* p[60];
    for (unsigned i = 0; i < 60; ++i) {
      p[i] = static_cast<unsigned char*>(malloc(16 + 40 * i));
      EXPECT(p[i]);
      memset(p[i], static_cast<int>(i), 16 + 40 * i);
    }
    for (unsigned i = 0; i < 60; ++i) {
      for (unsigned at = 0; at < 16 + 40 * i; ++at) EXPECT(p[i][at] == i);
      free(p[i]);
    }
  }
  has_ended = false;
  has_gone = true;
}

int end() {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    if (has_ended) count_and_allocate(signal);
  };
  EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
  static pthread_key_t key;
  EXPECT(pthread_key_create(&key, go_on) == 0);
  for (int i = 0; i < 20; ++i) {
    has_gone = false;
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, [](void* unused) {
      free(malloc(100));
      pthread_setspecific(key, &key);
      return unused;
    }, nullptr) == 0);
    while (!has_gone) pthread_kill(thread, SIGUSR1);
    pthread_join(thread, nullptr);
  }
  printf("%lu signals\n", signals.load());
  return 0;
}

#if defined(__x86_64__)
void set_trap_flag(bool on) {
  if (on) asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n" ::: "cc", "memory");
  else asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq\n" ::: "cc", "memory");
}
#endif

#if defined(__x86_64__)
/// The first miss of a thread and what it does behind the allocator's own destructor: a fault that is blocked there ends the process.
void step_through(void*) {
  set_trap_flag(true);
  free(malloc(100));
  set_trap_flag(false);
}
#endif

/// Only where sections are not restarted by the kernel: a restart after every instruction would never end.
int step() {
#if defined(__x86_64__)
  struct sigaction action {};
  action.sa_handler = count;
  EXPECT(sigaction(SIGTRAP, &action, nullptr) == 0);
  life::Churn churn(3);
  churn.steps(50);
  set_trap_flag(true);
  churn.steps(300);
  set_trap_flag(false);
  churn.end();
  static pthread_key_t key;
  EXPECT(pthread_key_create(&key, step_through) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, nullptr, [](void* unused) {
    step_through(nullptr);
    pthread_setspecific(key, &key);
    return unused;
  }, nullptr) == 0);
  pthread_join(thread, nullptr);
  printf("%lu signals\n", signals.load());
  EXPECT(signals > 10'000);
#endif
  return 0;
}

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

void expect_that_they_wait(void*) {
  free(malloc(100));
  sigset_t waiting;
  EXPECT(sigpending(&waiting) == 0);
  for (const int fault : kFaults) EXPECT(sigismember(&waiting, fault) == 1);
}

/// A program may block a fault's signal, too, and take it by sigwait or signalfd. It would end the process where it is let through.
int wait() {
  static pthread_key_t key;
  EXPECT(pthread_key_create(&key, expect_that_they_wait) == 0);
  sigset_t faults;
  sigemptyset(&faults);
  for (const int fault : kFaults) sigaddset(&faults, fault);
  EXPECT(pthread_sigmask(SIG_BLOCK, &faults, nullptr) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, nullptr, [](void* unused) {
    for (const int fault : kFaults) raise(fault);
    expect_that_they_wait(nullptr);
    pthread_setspecific(key, &key);
    return unused;
  }, nullptr) == 0);
  return pthread_join(thread, nullptr);
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1] ? argv[1] : "";
  return what == "rain" ? rain() : what == "allocate" ? allocate() : what == "end" ? end() : what == "step" ? step()
         : what == "wait" ? wait() : 2;
}
