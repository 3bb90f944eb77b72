// left_files.cpp: their ranges; empty ones are those that something new lies in.
#include "left_files.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "file_maps.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"

namespace mortise::isolate {
namespace {

struct Range {
  std::uintptr_t low, high;
};

constexpr std::size_t kLeftMax = 1024;
constinit Range left[kLeftMax]{};
constinit std::size_t left_count = 0;
constinit std::atomic<bool> dropping{false};

/// In every address space: what was left up to a moment ago.
void unmap_left(void* argument) {
  const std::size_t count = *static_cast<const std::size_t*>(argument);
  Quiet held(file_lock());
  for (std::size_t i = 0; i < count; ++i)
    if (left[i].low < left[i].high) raw_syscall(SYS_munmap, static_cast<long>(left[i].low), static_cast<long>(left[i].high - left[i].low));
}

}  // namespace

void note_left(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (left_count < kLeftMax) left[left_count++] = {low, high};
}

void forget_left(std::uintptr_t low, std::uintptr_t high) noexcept {
  for (std::size_t i = 0; i < left_count; ++i)
    if (left[i].low < high && low < left[i].high) left[i] = {};
}

bool is_left_full() noexcept { return left_count == kLeftMax; }

void drop_left() noexcept {
  if (dropping.exchange(true)) return;
  std::size_t count = left_count;
  everywhere(&unmap_left, &count);
  Quiet held(file_lock());
  left_count -= count;
  std::memmove(left, left + count, left_count * sizeof left[0]);
  dropping.store(false);
}

void forget_droppers() noexcept { dropping.store(false); }

}  // namespace mortise::isolate
