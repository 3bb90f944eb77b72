// create.hpp: starting a thread as a process that shares everything but its address space.
#pragma once

#include <pthread.h>

namespace mortise::isolate {

/// The replacement of pthread_create once the runtime is armed.
int create_thread(pthread_t* out, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) noexcept;

}  // namespace mortise::isolate
