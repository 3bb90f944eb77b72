// A fiber: a stack and a place to go on from. The explorer runs each logical thread of a scenario on one.
// A fiber that is abandoned half-way is simply started afresh: nothing on its stack is destroyed.
#pragma once

#include <cstddef>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace mortise::model {

class Fiber {
 public:
  using Entry = void (*)(void* argument);
  static constexpr std::size_t kStackBytes = 128 * 1024;

  /// Forgets where the fiber was; the next enter() calls entry(argument), which must end with leave() and never return.
  void start(Entry entry, void* argument);
  /// Runs the fiber until it leaves. Called by the explorer.
  void enter();
  /// Goes back to whoever entered. Called on the fiber.
  void leave();

 private:
  std::unique_ptr<std::byte[]> stack_;
#if defined(__x86_64__)
  void* inside_ = nullptr;   // stack pointer of the fiber while it is not running
  void* outside_ = nullptr;  // stack pointer of the explorer while the fiber runs
#else
  ucontext_t inside_{}, outside_{};
#endif
};

}  // namespace mortise::model
