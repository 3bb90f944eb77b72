// What the programs of this folder share: a check that ends the program with a line, what the kernel says of the process, the time,
// a small random source, and blocks that come and go.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      dprintf(2, "%s:%d: does not hold: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      _exit(1);                                                                                \
    }                                                                                          \
  } while (0)

namespace life {

constexpr std::size_t kMiB = 1 << 20;

inline std::uint64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000 + static_cast<std::uint64_t>(t.tv_nsec) / 1'000'000;
}

/// The beginning of a file of /proc, read without touching the heap.
template <std::size_t kBytes> void read_start(const char* path, char (&text)[kBytes]) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  EXPECT(fd >= 0);
  const ssize_t n = read(fd, text, kBytes - 1);
  close(fd);
  EXPECT(n > 0);
  text[n] = 0;
}

/// Resident bytes of this process.
inline std::size_t resident() {
  char text[128];
  read_start("/proc/self/statm", text);
  return strtoul(strchr(text, ' '), nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// How many threads the kernel counts in this process.
inline unsigned threads() {
  char text[4096];
  read_start("/proc/self/status", text);
  return static_cast<unsigned>(strtoul(strstr(text, "Threads:") + 8, nullptr, 10));
}

inline bool is_zero(const unsigned char* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    if (p[i]) return false;
  return true;
}

/// Waits, asleep, until `done` says so; false when a minute has passed.
template <class Done> bool wait_for(Done done) {
  for (int i = 0; i < 6000; ++i) {
    if (done()) return true;
    usleep(10'000);
  }
  return false;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state_ >> 33) % n;
  }

 private:
  std::uint64_t state_;
};

/// A table of blocks, each filled with a byte of its own; a step allocates, resizes or frees one and checks it.
class Churn {
 public:
  explicit Churn(std::uint64_t seed, std::size_t size_max = 3000) : random_(seed), size_max_(size_max) {}
  void step() {
    Held& h = held_[random_.below(kHeld)];
    const std::size_t n = random_.below(100) ? random_.below(size_max_) + 1 : 300'000 + random_.below(500'000);
    if (!h.p) {
      h.p = static_cast<unsigned char*>(random_.below(4) ? malloc(n) : calloc(1, n));
      EXPECT(h.p);
      fill(h, n);
    } else if (random_.below(4) == 0) {
      check(h);
      h.p = static_cast<unsigned char*>(realloc(h.p, n));
      EXPECT(h.p && h.p[0] == h.mark);
      fill(h, n);
    } else {
      check(h);
      free(h.p);
      h = {};
    }
  }
  void steps(unsigned n) {
    while (n--) step();
  }
  void end() {
    for (Held& h : held_) {
      if (h.p) check(h);
      free(h.p);
      h = {};
    }
  }

 private:
  static constexpr std::size_t kHeld = 200;
  struct Held {
    unsigned char* p;
    std::size_t n;
    unsigned char mark;
  };
  void fill(Held& h, std::size_t n) {
    h.n = n;
    h.mark = static_cast<unsigned char>(random_.below(256));
    memset(h.p, h.mark, n < 4096 ? n : 4096);
    h.p[n - 1] = h.mark;
  }
  static void check(const Held& h) {
    EXPECT(h.p[0] == h.mark && h.p[h.n / 2 < 4096 ? h.n / 2 : 0] == h.mark && h.p[h.n - 1] == h.mark);
  }

  Random random_;
  std::size_t size_max_;
  Held held_[kHeld] = {};
};

}  // namespace life
