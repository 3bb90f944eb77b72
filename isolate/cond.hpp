// cond.hpp: condition variables in glibc's own bytes.
#pragma once

#include <ctime>
#include <pthread.h>

namespace mortise::isolate {

int wait_cond(pthread_cond_t* c, pthread_mutex_t* m);
int timed_wait_cond(pthread_cond_t* c, pthread_mutex_t* m, const timespec* deadline);
int clock_wait_cond(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* deadline);
int signal_cond(pthread_cond_t* c) noexcept;
int broadcast_cond(pthread_cond_t* c) noexcept;
int destroy_cond(pthread_cond_t* c) noexcept;

}  // namespace mortise::isolate
