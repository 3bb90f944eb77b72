// rwlock.hpp: read-write locks in glibc's own bytes.
#pragma once

#include <ctime>
#include <pthread.h>

namespace mortise::isolate {

int read_lock(pthread_rwlock_t* l) noexcept;
int try_read_lock(pthread_rwlock_t* l) noexcept;
int timed_read_lock(pthread_rwlock_t* l, const timespec* deadline) noexcept;
int clock_read_lock(pthread_rwlock_t* l, clockid_t clock, const timespec* deadline) noexcept;
int write_lock(pthread_rwlock_t* l) noexcept;
int try_write_lock(pthread_rwlock_t* l) noexcept;
int timed_write_lock(pthread_rwlock_t* l, const timespec* deadline) noexcept;
int clock_write_lock(pthread_rwlock_t* l, clockid_t clock, const timespec* deadline) noexcept;
int unlock_rwlock(pthread_rwlock_t* l) noexcept;

}  // namespace mortise::isolate
