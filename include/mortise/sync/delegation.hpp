// Work that a lock may do on another thread: a function and a word, whatever the work is and returns.
#pragma once

#include <type_traits>

namespace mortise {

/// Does the work at an address.
using DelegatedCall = void (*)(void*) noexcept;

/// The call that does a `Work`.
template <class Work> constexpr DelegatedCall call_for() noexcept {
  return [](void* work) noexcept { (*static_cast<Work*>(work))(); };
}

/// Lets `run` do a work that returns nothing, and returns what `work` returned: whoever did it leaves that with the caller.
template <class Work, class Run> auto result_of(Work& work, Run run) noexcept {
  using Result = std::invoke_result_t<Work&>;
  if constexpr (std::is_void_v<Result>) {
    run(work);
  } else {
    struct {
      Work& work;
      Result result{};
      void operator()() noexcept { result = work(); }
    } keep{work};
    run(keep);
    return keep.result;
  }
}

}  // namespace mortise
