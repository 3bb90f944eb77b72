// credentials.hpp: user and group ids belong to the whole program; the kernel keeps them per kernel thread.
#pragma once

#include <cstddef>
#include <grp.h>
#include <unistd.h>

namespace mortise::isolate {

/// One of the system calls that change them, for the calling thread alone, as programs make it by `syscall`.
long change_credentials_here(long number, long a, long b = 0, long c = 0) noexcept;
int set_fsuid(uid_t id) noexcept;
int set_fsgid(gid_t id) noexcept;

int set_uid(uid_t id) noexcept;
int set_gid(gid_t id) noexcept;
int set_reuid(uid_t real, uid_t effective) noexcept;
int set_regid(gid_t real, gid_t effective) noexcept;
int set_resuid(uid_t real, uid_t effective, uid_t saved) noexcept;
int set_resgid(gid_t real, gid_t effective, gid_t saved) noexcept;
int set_euid(uid_t id) noexcept;
int set_egid(gid_t id) noexcept;
int set_groups(std::size_t count, const gid_t* groups) noexcept;
/// Whether this option of prctl marks an address space, or says who may trace it.
bool is_of_memory(int option) noexcept;
/// Replacement of prctl: "die with the parent" and "take orphans in" are about the program.
int control_process(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) noexcept;

/// In a new thread: whoever may trace the program may trace it.
void let_tracer_trace() noexcept;

}  // namespace mortise::isolate
