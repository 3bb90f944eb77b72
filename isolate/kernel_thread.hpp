// kernel_thread.hpp: a thread of the leader's address space that glibc knows nothing of, for the runtime's own work.
#pragma once

#include <cstddef>

#include "thread.hpp"

namespace mortise::isolate {

/// Has its own stack and TLS block, blocks all signals, and must never end. A static object each.
class KernelThread {
 public:
  /// Starts it unless it runs already; called while the program has one thread. False: no memory or no process.
  bool start(int (*function)(void*)) noexcept;

  /// The kernel's id of it, or 0.
  int id() const noexcept;

  /// In the child of a fork it is not there any more.
  void forget() noexcept { running_ = false; }

 private:
  static int enter(void* own);

  bool running_ = false;
  int (*function_)(void*) = nullptr;
  Thread record_;  // only its TLS block is used
  alignas(64) std::byte stack_[64 << 10]{};
};

}  // namespace mortise::isolate
