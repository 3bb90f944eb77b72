// What the analysis may cost: a fixed number of steps, so that small programs are seen whole; beyond, for the last sample of a node, one
// for so many objects that were looked up: nothing that a clock tells, so that what is seen is the same each time. An instruction
// that the decoder must read first counts for nine. A sample that would cost more is put off for good: the next one of its node may find
// the process further on.
#pragma once

#include <time.h>

#include <cstdint>

namespace mortise::affinity {

class Budget {
 public:
  static constexpr std::uint64_t kFreeSteps = 12'000, kObjectsPerStep = 256, kLastSample = 32;
  static constexpr std::uint64_t kStepsOfDecoding = 8;

  /// Whether a sample of a node that has so many objects may be looked at, when so many were looked up, of all nodes.
  bool allows(std::uint64_t objects, std::uint64_t looked_up) const noexcept {
    return steps_ < kFreeSteps || (objects >= kLastSample && steps_ - kFreeSteps <= looked_up / kObjectsPerStep);
  }
  void begin() noexcept { began_ns_ = now(); }
  /// `looked_at`: instructions since begin(); `decoded`: those of them that the decoder had to read.
  void end(std::uint64_t looked_at, std::uint64_t decoded) noexcept {
    spent_ns_ += now() - began_ns_;
    steps_ += looked_at + kStepsOfDecoding * decoded;
  }
  std::uint64_t spent_ns() const noexcept { return spent_ns_; }

 private:
  static std::uint64_t now() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
  }
  std::uint64_t steps_ = 0, spent_ns_ = 0, began_ns_ = 0;
};

}  // namespace mortise::affinity
