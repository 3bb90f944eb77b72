// record_locks.hpp: which files the program may hold record locks on (fcntl's F_SETLK and F_SETLKW, lockf).
//
// The kernel drops all record locks that a process has on a file when *any* descriptor of that file is closed. The
// runtime closes duplicates that the program knows nothing of, so it must know what it may close (descriptors.hpp).
#pragma once

#include <cstdint>

#include "signals.hpp"

namespace mortise::isolate {

class Lock;

/// Replacement of fcntl; libc's lockf goes by way of it.
int control_file(int fd, int command, ...);

/// The same for a system call of the program's; returns the kernel's answer.
long control_file_raw(int fd, int command, long argument) noexcept;

/// A number for the file behind a descriptor, from its device and inode; two files seldom have the same. 0: no such
/// descriptor.
std::uint64_t key_of_file(int fd) noexcept;

/// While one lives no thread begins to take a record lock, and no handler of the program runs here.
class NoNewLocks {
 public:
  NoNewLocks() noexcept;
  ~NoNewLocks();
  NoNewLocks(const NoNewLocks&) = delete;

 private:
  NoSignals signals_;
};

/// Whether closing `fd`, a descriptor of the file `key`, might take a lock of the program's away. Inside NoNewLocks.
bool may_hold_lock(int fd, std::uint64_t key) noexcept;

/// Whether the kernel lists a lock that goes with the open file, not with the process: flock or F_OFD_SETLK. Inside NoNewLocks.
bool shows_open_file_lock(int fd) noexcept;

/// Finds out what the program holds locks on, from the kernel's list: locks from before the runtime armed, and those
/// that are gone. False when the system does not tell: then all that was known stays so. Inside NoNewLocks.
bool renew_locked_files() noexcept;

/// Before the program's calls are the runtime's.
void find_locked_files() noexcept;

/// What NoNewLocks holds, for tables.hpp; and for an exec that has killed other threads, one of which may have been inside.
Lock& record_lock() noexcept;

/// In the child of a fork, which owns no record lock.
void forget_record_locks() noexcept;

}  // namespace mortise::isolate
