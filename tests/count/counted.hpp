// Threads that call a counting library: each has its own counters at the GS base, in place before its first call.
#pragma once

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "calls.hpp"

namespace mortise::count {

struct Counters {
  std::uint64_t instructions, room, restarts, busy;  // as instrument.py has them
};

/// Puts `counters` at the calling thread's GS base. They must outlive the thread.
inline void count_here(Counters& counters) {
  if (::syscall(SYS_arch_prctl, ARCH_SET_GS, &counters) == 0) return;
  std::fprintf(stderr, "the GS base cannot be set on this kernel\n");
  std::exit(1);
}

/// malloc and free of a counting library, each call with its number of instructions.
class Counted {
 public:
  explicit Counted(const Library& library)
      : malloc_(reinterpret_cast<void* (*)(std::size_t)>(library.function[unsigned(Entry::malloc)])),
        free_(reinterpret_cast<void (*)(void*)>(library.function[unsigned(Entry::free)])) {}

  void* malloc(std::size_t size, const Counters& counters, std::uint64_t& most) const {
    const volatile Counters& seen = counters;
    const std::uint64_t before = seen.instructions;
    void* const p = malloc_(size);
    if (const std::uint64_t taken = seen.instructions - before; taken > most) most = taken;
    return p;
  }
  void free(void* p, const Counters& counters, std::uint64_t& most) const {
    const volatile Counters& seen = counters;
    const std::uint64_t before = seen.instructions;
    free_(p);
    if (const std::uint64_t taken = seen.instructions - before; taken > most) most = taken;
  }

 private:
  void* (*malloc_)(std::size_t);
  void (*free_)(void*);
};

/// A random sequence that a seed repeats.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t below(std::uint64_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_ % n;
  }

 private:
  std::uint64_t state_;
};

}  // namespace mortise::count
