// attributes.hpp: what a thread is made with.
#pragma once

#include <pthread.h>

#include "thread.hpp"

namespace mortise::isolate {

/// The attributes given, or a copy of the program's defaults (pthread_setattr_default_np).
class Attributes {
 public:
  explicit Attributes(const pthread_attr_t* given) noexcept;
  ~Attributes();
  Attributes(const Attributes&) = delete;
  const pthread_attr_t* get() const noexcept { return used_; }

 private:
  pthread_attr_t defaults_;
  const pthread_attr_t* used_;
};

/// Notes them in the record; the stack is make_stack's.
void read_attributes(Thread& t, const pthread_attr_t* attributes) noexcept;

/// In the new thread: asks the kernel for what they say. False, with the creator told, when it refuses: the program's function must not run.
bool take_attributes(Thread& t) noexcept;

/// In the creator, with the record still its own: 0, or what the kernel said.
int await_attributes(Thread& t) noexcept;

/// Replacement of pthread_getattr_np.
int thread_attributes(pthread_t handle, pthread_attr_t* out) noexcept;

}  // namespace mortise::isolate
