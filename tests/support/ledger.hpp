// A quarantine alone, over a heap that says how often each block came back, with releases in a signal handler at every instruction.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "mortise/core/core.hpp"
#include "tests/support/each_instruction.hpp"

namespace mortise::test {

/// What lies below: says how often each block came back. A signal handler that finds it at work is not served.
class Ledger {
 public:
  struct Thread {};
  struct Classes {
    static constexpr unsigned kCount = 1;
    static constexpr std::size_t kMaxBytes = 64;
    static constexpr unsigned class_of(std::size_t) { return 1; }
    static constexpr std::size_t size_of(unsigned) { return 64; }
  };
  static constexpr Progress kProgress = Progress::of(Guarantee::wait_free);
  static constexpr unsigned kBlocks = 18;

  Block allocate(Thread&, Request) noexcept { return {}; }
  void release(Thread& t, Block b) noexcept { release_batch(t, 1, &b.ptr, 1); }
  unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) noexcept { return 0; }
  void release_batch(Thread&, unsigned, std::byte** in, unsigned n) noexcept {
    is_at_work = true;
    for (unsigned i = 0; i < n; ++i) ++returned[(in[i] - block_[0]) / 64];
    is_at_work = false;
  }
  bool holds(const std::byte*) noexcept { return true; }
  Block block_of(std::byte* p) noexcept { return {p, 64, 1}; }
  Block measure(Block b) noexcept { return {b.ptr, 64, 1}; }
  std::byte* meta(std::size_t bytes) noexcept { return memory_ + (used_ += bytes) - bytes; }

  Block block(unsigned i) noexcept { return {block_[i], 64, 1}; }
  volatile bool is_at_work = false;
  int returned[kBlocks] = {};

 private:
  std::size_t used_ = 0;
  alignas(64) std::byte block_[kBlocks][64] = {};
  alignas(64) std::byte memory_[64_KiB] = {};
};

#if defined(__x86_64__)

/// A thread begins, releases, trims and ends; a handler releases at any instruction of that. Each block comes back once.
template <class Quarantine> void release_at_each_instruction() {
  constexpr unsigned kReleased = 9, kHandlers = 4;
  std::unique_ptr<Quarantine> heap;
  std::unique_ptr<typename Quarantine::Thread> thread;
  bool has_handled = false;
  const auto release = [&](unsigned i) {
    if (!heap->release_hit(*thread, heap->below.block(i))) heap->release(*thread, heap->below.block(i));
  };
  const unsigned instructions = EachInstruction::of(
      [&] {
        for (unsigned i = 0; heap && i < kReleased + kHandlers; ++i)
          EXPECT_EQ(heap->below.returned[i], i < kReleased || has_handled) << "block " << i;
        heap = std::make_unique<Quarantine>();
        thread = std::make_unique<typename Quarantine::Thread>();
        has_handled = false;
      },
      [&] {
        heap->attach(*thread);
        for (unsigned i = 0; i < 5; ++i) release(i);
        heap->trim(*thread);
        for (unsigned i = 5; i < kReleased; ++i) release(i);
        heap->detach(*thread);
      },
      [&] {
        if (heap->below.is_at_work) return;
        for (unsigned i = 0; i < kHandlers; ++i) release(kReleased + i);
        has_handled = true;
      });
  EXPECT_GT(instructions, 300u);
}

#endif

}  // namespace mortise::test
