// What the analysis may cost: a fixed number of steps, so that small programs are seen whole and the same each time; beyond, a
// thousandth of the CPU time that the process has taken. An instruction that the decoder must read first counts for nine. A
// sample that would cost more is put off for good: the next one of its node may find the process further on.
#pragma once

#include <time.h>

#include <cstdint>

namespace mortise::affinity {

class Budget {
 public:
  static constexpr std::uint64_t kFreeSteps = 24'000, kShareOfTime = 1000, kLastSample = 64;
  static constexpr std::uint64_t kStepsOfDecoding = 8;

  /// Whether a sample of a node that has so many objects may be looked at.
  bool allows(std::uint64_t objects) const noexcept {
    return steps_ < kFreeSteps || (objects >= kLastSample && beyond_ns_ * kShareOfTime <= now(CLOCK_PROCESS_CPUTIME_ID));
  }
  void begin() noexcept { began_ns_ = now(CLOCK_MONOTONIC); }
  /// `looked_at`: instructions since begin(); `decoded`: those of them that the decoder had to read.
  void end(std::uint64_t looked_at, std::uint64_t decoded) noexcept {
    const std::uint64_t steps = looked_at + kStepsOfDecoding * decoded;
    const std::uint64_t took = now(CLOCK_MONOTONIC) - began_ns_;
    spent_ns_ += took;
    if (steps_ >= kFreeSteps) beyond_ns_ += took;
    steps_ += steps;
  }
  std::uint64_t spent_ns() const noexcept { return spent_ns_; }

 private:
  static std::uint64_t now(clockid_t clock) noexcept {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
  }
  std::uint64_t steps_ = 0, spent_ns_ = 0, beyond_ns_ = 0, began_ns_ = 0;
};

}  // namespace mortise::affinity
