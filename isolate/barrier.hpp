// barrier.hpp: barriers in glibc's own bytes.
#pragma once

#include <pthread.h>

namespace mortise::isolate {

int wait_at_barrier(pthread_barrier_t* b) noexcept;
int destroy_barrier(pthread_barrier_t* b) noexcept;

}  // namespace mortise::isolate
