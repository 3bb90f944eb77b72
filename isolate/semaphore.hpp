// semaphore.hpp: counting semaphores in glibc's own bytes and protocol, so named ones work with other programs.
#pragma once

#include <ctime>
#include <semaphore.h>

namespace mortise::isolate {

int wait_semaphore(sem_t* s);
int try_wait_semaphore(sem_t* s) noexcept;
int timed_wait_semaphore(sem_t* s, const timespec* deadline);
int clock_wait_semaphore(sem_t* s, clockid_t clock, const timespec* deadline);
int post_semaphore(sem_t* s) noexcept;

}  // namespace mortise::isolate
