// Forks while others hold what fork itself needs: of this program's other threads, and of the thread that forks.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <string>

#include "life.hpp"

namespace life {

/// A fork while one thread flushes all streams, which waits for a thread that holds one of them, which allocates.
/// Ends when all three have got on. Before it allocates the holder waits until the others are asleep, each where it must wait.
class ForkAmidFlush {
 public:
  using Allocate = void (*)();

  void run(Allocate allocate) {
    stream_ = tmpfile();
    EXPECT(stream_);
    fputs("to be written", stream_);
    flockfile(stream_);
    pthread_t flusher, forker;
    EXPECT(pthread_create(&flusher, nullptr, flush_all, this) == 0);
    wait_until_asleep(flusher_);
    EXPECT(pthread_create(&forker, nullptr, fork_once, this) == 0);
    wait_until_asleep(forker_);
    allocate();
    funlockfile(stream_);
    EXPECT(pthread_join(flusher, nullptr) == 0);
    EXPECT(pthread_join(forker, nullptr) == 0);
    fclose(stream_);
  }

 private:
  static void* flush_all(void* self) {
    static_cast<ForkAmidFlush*>(self)->flusher_ = gettid();
    EXPECT(fflush(nullptr) == 0);
    return nullptr;
  }
  static void* fork_once(void* self) {
    static_cast<ForkAmidFlush*>(self)->forker_ = gettid();
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) _exit(fflush(nullptr));  // nobody holds in the child what was held in the parent
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    return nullptr;
  }
  static void wait_until_asleep(const std::atomic<int>& thread) {
    EXPECT(wait_for([&] {
      if (!thread) return false;
      char text[512];
      read_start(("/proc/" + std::to_string(thread) + "/stat").c_str(), text);
      return strrchr(text, ')')[2] == 'S';
    }));
  }

  FILE* stream_ = nullptr;
  std::atomic<int> flusher_{0}, forker_{0};
};

/// Stops a thread that allocates and one that forks by signals, again and again, as garbage collectors do: each waits in the handler until
/// both are there. Who stopped first may hold a lock that fork takes.
class ForkAmidStop {
 public:
  static void run() {
    struct sigaction action = {};
    action.sa_handler = stop;
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
    pthread_t threads[2];
    EXPECT(pthread_create(&threads[0], nullptr, allocate, nullptr) == 0);
    EXPECT(pthread_create(&threads[1], nullptr, fork_on, nullptr) == 0);
    for (unsigned round = 0; round < 2000; ++round) {
      goes_on_ = false;
      for (const pthread_t thread : threads) EXPECT(pthread_kill(thread, SIGUSR1) == 0);
      while (stopped_ != 2) usleep(50);
      goes_on_ = true;
      while (stopped_ != 0) usleep(50);
    }
    is_over_ = true;
    for (const pthread_t thread : threads) EXPECT(pthread_join(thread, nullptr) == 0);
  }

 private:
  static void stop(int) {
    const int before = errno;
    ++stopped_;
    while (!goes_on_) usleep(50);
    --stopped_;
    errno = before;
  }
  static void* allocate(void*) {
    for (Churn churn(1, 100'000); !is_over_;) churn.step();
    return nullptr;
  }
  static void* fork_on(void*) {
    while (!is_over_) {
      const pid_t child = fork();
      EXPECT(child >= 0);
      if (child == 0) _exit(0);
      int status = 0;
      EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    return nullptr;
  }

  static inline std::atomic<bool> goes_on_{false}, is_over_{false};
  static inline std::atomic<int> stopped_{0};
};

/// A library that comes by dlopen registers its fork handlers after the program's, which run within them: the one before a fork waits for a
/// thread that opens a stream, the one in the child says which signals it blocks.
class ForkWithOwnHandlers {
 public:
  static void run(const char* library) {
    EXPECT(pthread_atfork(wait_for_opener, nullptr, block) == 0);
    EXPECT(dlopen(library, RTLD_NOW));
    EXPECT(pthread_create(&opener_, nullptr, open_stream, nullptr) == 0);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      sigset_t now;
      EXPECT(sigprocmask(SIG_BLOCK, nullptr, &now) == 0 && sigismember(&now, SIGUSR2) == 1);
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }

 private:
  static void wait_for_opener() {
    is_forking_ = true;
    EXPECT(pthread_join(opener_, nullptr) == 0);
  }
  static void block() {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    EXPECT(sigprocmask(SIG_BLOCK, &one, nullptr) == 0);
  }
  static void* open_stream(void*) {
    while (!is_forking_) usleep(50);
    FILE* const stream = fopen("/dev/null", "w");
    EXPECT(stream);
    fclose(stream);
    return nullptr;
  }

  static inline pthread_t opener_;
  static inline std::atomic<bool> is_forking_{false};
};

/// Each child sends its parent a signal at once, which may arrive while the parent's fork is at its handlers; its own handler forks, too.
class ForkAmidFork {
 public:
  static void run(int with = SIGUSR1) {
    struct sigaction action = {};
    action.sa_handler = [](int) { fork_once(0); };
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(with, &action, nullptr) == 0);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    EXPECT(sigprocmask(SIG_BLOCK, &one, nullptr) == 0);
    for (unsigned round = 0; round < 200; ++round) fork_once(with);
    expect_mask();
  }

 private:
  static void fork_once(int signal) {
    const pid_t parent = getpid(), child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      if (signal) kill(parent, signal), expect_mask();
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  /// What the program blocks, and nothing else.
  static void expect_mask() {
    sigset_t now;
    EXPECT(sigprocmask(SIG_BLOCK, nullptr, &now) == 0);
    for (int signal = 1; signal < 32; ++signal) EXPECT(sigismember(&now, signal) == (signal == SIGUSR2));
  }
};

}  // namespace life
