// The explorer's side of include/mortise/os/futex.hpp: a sleeper goes on only when somebody wakes, so that a forgotten wake is
// found as waiting for ever.
#pragma once

#include <cstdint>

#include "explorer/hooks.hpp"

namespace mortise::os {

/// Counts the wakes of each word. Only whether it has changed matters, so it need not start at zero in each execution.
inline std::uint32_t* wakes_of(const void* word) noexcept {
  static struct {
    const void* word;
    std::uint32_t wakes;
  } cells[256];
  for (auto& cell : cells) {
    if (!cell.word) cell.word = word;
    if (cell.word == word) return &cell.wakes;
  }
  __builtin_trap();
}

inline std::uint32_t futex_step(model::Kind kind, const void* word, std::uint32_t operand, model::Order order) {
  model::Operation op{.kind = kind,
                      .order = order,
                      .address = word,
                      .bytes = 4,
                      .operand = {operand, 0},
                      .where = std::source_location::current()};
  model::hooks::perform(op);
  return static_cast<std::uint32_t>(op.result.low);
}

/// A sleep that ends by itself ends when something that the sleeper looked at has changed. The longest time there is does not end.
inline void futex_wait(const void* word, std::uint32_t seen, std::int64_t timeout_ns = -1) noexcept {
  if (timeout_ns >= 0 && timeout_ns != INT64_MAX) return model::hooks::relax(std::source_location::current());
  const void* const wakes = wakes_of(word);
  const std::uint32_t before = futex_step(model::Kind::add, wakes, 0, model::Order::acq_rel);
  if (futex_step(model::Kind::load, word, 0, model::Order::relaxed) != seen) return;
  while (futex_step(model::Kind::load, wakes, 0, model::Order::acquire) == before)
    model::hooks::relax(std::source_location::current());
}

inline void futex_wake(const void* word, int) noexcept {
  futex_step(model::Kind::add, wakes_of(word), 1, model::Order::acq_rel);
}

}  // namespace mortise::os
