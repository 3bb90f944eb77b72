// record_locks.cpp: notes of files with record locks.
//
//   thread takes a lock                          thread closes a duplicate of its own
//     NoNewLocks: mark the file, "I take"          NoNewLocks: not marked                -> close
//     the kernel's call, which may wait                        somebody takes            -> keep
//     "I take" off                                             the kernel: nobody has one -> close, otherwise keep
//
// A mark is one bit chosen by the file's number: a file marked in another's stead costs the kernel's answer, no more.
// That answer (F_OFD_GETLK, asked by a descriptor's own right) counts locks of other processes too; who really has
// one is written in /proc/self/fdinfo, which is too slow to be read each time.
#include "record_locks.hpp"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>

#include "cancel.hpp"
#include "descriptors.hpp"
#include "lock.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kMarks = 1u << 16;

struct Marks {
  std::uint64_t words[kMarks / 64];

  void set(std::uint64_t key) noexcept { words[key >> 54] |= 1ull << (key >> 48 & 63); }
  bool has(std::uint64_t key) const noexcept { return words[key >> 54] >> (key >> 48 & 63) & 1; }
};

constinit Lock lock;  // taken with signals blocked only: fcntl may be called by a handler
constinit Marks marks{}, renewed{};
alignas(8) constinit char list[2048]{}, text[4096]{};  // inside NoNewLocks

constexpr std::uint64_t kAnyFile = 2;  // no file's key, which is odd

bool is_being_locked(std::uint64_t key) noexcept {
  for (int i = 0; i < thread_records(); ++i) {
    const Thread& t = threads[i];
    if (!t.in_use.load() || t.ended.load() != 0) continue;
    for (const LockCall& call : t.lock_calls)
      if (const std::uint64_t k = call.key.load(); k == key || k == kAnyFile) return true;
  }
  return false;
}

bool on_signal_stack() noexcept {
  stack_t now{};
  return failed(raw_syscall(SYS_sigaltstack, 0, as_long(&now))) || (now.ss_flags & SS_ONSTACK);
}

/// Forgets calls that a jump has left: who is above one on its stack is in none of its handlers. A signal's frame alone takes more
/// than kSignalFrame, so that what lies less far below is no handler's either.
void forget_calls_left(std::uintptr_t here) noexcept {
  constexpr std::size_t kSignalFrame = 1024;
  if (!self) return;
  for (LockCall& call : self->lock_calls)
    if (call.key.load() && here + kSignalFrame >= call.at && is_thread() && !on_signal_stack()) call.key.store(0);
}

/// What a thread says of itself around a call that may take a lock. Where cancellation or a jump leaves the call, it stands until
/// that is found out: too long, never too short.
class Taking {
 public:
  explicit Taking(std::uint64_t key) noexcept {
    if (!key || !is_thread()) return;
    const NoNewLocks quiet;
    clear_up_before_lock();
    marks.set(key);
    call_ = self->lock_calls;
    while (call_ < self->lock_calls + kLockCalls - 1 && call_->key.load()) ++call_;
    key_before_ = call_->key.load();
    at_before_ = call_->at;
    call_->at = reinterpret_cast<std::uintptr_t>(this);
    call_->key.store(key_before_ ? kAnyFile : key);  // more calls than places
  }
  void end() const noexcept {
    if (!call_) return;
    call_->key.store(key_before_);
    call_->at = at_before_;
  }

 private:
  LockCall* call_ = nullptr;
  std::uint64_t key_before_ = 0;
  std::uintptr_t at_before_ = 0;
};

bool may_take_lock(int command) noexcept { return command == F_SETLK || command == F_SETLKW; }

int answer(long result) noexcept {
  return failed(result) ? (errno = static_cast<int>(-result), -1) : static_cast<int>(result);
}

/// As glibc's: an owner that is a process group is told as a negative number, which is no error.
int owner_of(int fd) noexcept {
  f_owner_ex owner{};
  const long result = raw_syscall(SYS_fcntl, fd, F_GETOWN_EX, as_long(&owner));
  if (failed(result)) return answer(result);
  return owner.type == F_OWNER_PGRP ? -owner.pid : owner.pid;
}

/// Whether the kernel lists such a lock taken by way of this descriptor. A list longer than the room counts as one.
bool shows_lock(int fd, std::string_view kind) noexcept {
  char path[40];
  format_path(path, "/proc/self/fdinfo/", fd, "");
  const long info = raw_syscall(SYS_open, as_long(path), O_RDONLY | O_CLOEXEC);
  if (failed(info)) return info != -ENOENT;
  const long got = raw_syscall(SYS_read, info, as_long(text), sizeof text);
  raw_syscall(SYS_close, info);
  return got < 0 || got == sizeof text || memmem(text, static_cast<std::size_t>(got), kind.data(), kind.size());
}

struct DirectoryEntry {  // the kernel's own form
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

int number_of(const char* name) noexcept {
  int value = 0;
  for (; *name >= '0' && *name <= '9'; ++name) value = value * 10 + (*name - '0');
  return *name ? -1 : value;
}

/// Adds every file that a descriptor of the program shows a record lock of. False: the system does not tell.
bool read_locks(Marks& out) noexcept {
  const long folder = raw_syscall(SYS_open, as_long("/proc/self/fdinfo"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (failed(folder)) return false;
  long got;
  while ((got = raw_syscall(SYS_getdents64, folder, as_long(list), sizeof list)) > 0)
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(list + at);
      at += entry->bytes;
      const int fd = number_of(entry->name);
      if (fd >= 0 && shows_lock(fd, "POSIX")) out.set(key_of_file(fd));
    }
  raw_syscall(SYS_close, folder);
  return got == 0;
}

}  // namespace

NoNewLocks::NoNewLocks() noexcept {
  lock.acquire();
  forget_calls_left(reinterpret_cast<std::uintptr_t>(this));
}
NoNewLocks::~NoNewLocks() { lock.release(); }

std::uint64_t key_of_file(int fd) noexcept {
  struct stat status;
  if (failed(raw_syscall(SYS_fstat, fd, as_long(&status)))) return 0;
  constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15ull;
  return ((status.st_dev * kMix) ^ status.st_ino) * kMix | 1;
}

bool may_hold_lock(int fd, std::uint64_t key) noexcept {
  if (!marks.has(key)) return false;
  if (is_being_locked(key)) return true;
  struct flock any{};  // the whole file, for writing: whatever anybody has is in its way
  any.l_type = F_WRLCK;
  return failed(raw_syscall(SYS_fcntl, fd, F_OFD_GETLK, as_long(&any))) || any.l_type != F_UNLCK;
}

bool shows_open_file_lock(int fd) noexcept { return shows_lock(fd, "FLOCK") || shows_lock(fd, "OFDLCK"); }

bool renew_locked_files() noexcept {
  if (!is_thread()) return false;
  renewed = {};
  // Who takes a lock comes first: one that is through by now is in the kernel's list, which is read next.
  for (int i = 0; i < thread_records(); ++i)
    for (const LockCall& call : threads[i].lock_calls)
      if (const std::uint64_t key = call.key.load(); threads[i].in_use.load() && key) {
        if (key == kAnyFile) return false;
        renewed.set(key);
      }
  if (!read_locks(renewed)) return false;
  marks = renewed;
  return true;
}

void find_locked_files() noexcept {
  const NoNewLocks quiet;
  if (!renew_locked_files()) std::memset(&marks, 0xff, sizeof marks);
}

Lock& record_lock() noexcept { return lock; }

void forget_record_locks() noexcept {
  marks = {};
  for (LockCall& call : self->lock_calls) call.key.store(0);
}

long control_file_raw(int fd, int command, long argument) noexcept {
  if (!may_take_lock(command)) return raw_syscall(SYS_fcntl, fd, command, argument);
  const std::uint64_t key = key_of_file(fd);
  const Taking taking(key);
  const long result = raw_syscall(SYS_fcntl, fd, command, argument);
  taking.end();
  close_unlocked(key);
  return result;
}

int control_file(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_GETOWN) return owner_of(fd);
  if (command != F_SETLKW && command != F_OFD_SETLKW) return answer(control_file_raw(fd, command, argument));
  const std::uint64_t key = command == F_SETLKW ? key_of_file(fd) : 0;
  const Taking taking(key);
  const long result = cancellable_call(SYS_fcntl, fd, command, argument);
  if (key) taking.end(), close_unlocked(key);
  return answer(result);
}

}  // namespace mortise::isolate
