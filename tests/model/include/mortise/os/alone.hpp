// The explorer's side of include/mortise/os/alone.hpp: a step on the core, which interrupts the sections of others there.
#pragma once

#include "mortise/os/rseq.hpp"

namespace mortise::os {

inline bool leaves_its_core = false;  ///< whoever asks has gone on elsewhere

inline bool rseq_alone_on(const RseqArea&, std::uint32_t index, model_detail::Where where = model_detail::Where::current()) noexcept {
  if (leaves_its_core) model::hooks::run_on_core(model::hooks::core() + 1);
  std::jmp_buf restart;
  setjmp(restart);
  model::hooks::section_begin(&restart);
  model::hooks::pause(where);
  const bool is_there = static_cast<std::uint32_t>(model::hooks::core()) == index;
  model::hooks::section_end();
  return is_there;
}

}  // namespace mortise::os
