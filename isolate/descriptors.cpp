// descriptors.cpp: the table of duplicates.
//
// Two descriptors of one file need not be alike: one reads only, one was opened before a layered file system copied the
// file. So a duplicate serves what was opened by the same call, and nothing else; kernels before 6.10 do not tell, and
// there it serves what differs in nothing that matters.
//
// How many stay without users: while the program has a lock, one for each open file that was mapped; it has these open
// itself, for closing one ends its locks. After that they go, unless other processes lock the file all the time: the
// kernel's quick answer does not tell these from the program. When kMoreAtLocks or kMoreAtMaps have come together since
// it was done last, or half as many as were left then, who has a lock is found out exactly: before the program takes one, when those of files that it has
// closed can all go, and when mappings are made and end.
#include "descriptors.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "raw.hpp"
#include "record_locks.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kFilesMax = 4096, kMoreAtLocks = 32, kMoreAtMaps = 64;

struct File {
  std::uint64_t key;  // 0: unused
  int fd;             // far from the program's numbers; -1: the program closed it, and somebody else has the number
  int users;
};

constinit File files[kFilesMax]{};  // changed inside NoNewLocks only
constinit std::size_t top = 0;    // entries above were never used
constinit std::atomic<std::size_t> kept{0};  // without users
constinit std::size_t next_look = 0;
constinit std::size_t left_at_locks = 0, left_at_maps = 0;  // by the last exact look

/// Lets this process, whose limit on descriptors is its own, go past it for a moment in which nothing of the program runs here.
class BeyondLimit {
 public:
  BeyondLimit() noexcept {
    if (failed(raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, as_long(&limit_)))) return;
    rlimit more{limit_.rlim_max, limit_.rlim_max};
    if (limit_.rlim_cur < limit_.rlim_max) raised_ = set(more);
    more.rlim_cur = more.rlim_max = limit_.rlim_cur + kBeyond;
    if (limit_.rlim_cur == limit_.rlim_max) raised_ = set(more);  // where the program is privileged
  }
  ~BeyondLimit() {
    if (raised_) set(limit_);
  }
  BeyondLimit(const BeyondLimit&) = delete;

  /// The first number of those that are open now only; 0: none are.
  long first() const noexcept { return raised_ ? static_cast<long>(limit_.rlim_cur) : 0; }
  /// Where numbers begin that the program may come to use, having raised its limit, but seldom does.
  long middle() const noexcept { return static_cast<long>(limit_.rlim_max / 2); }
  /// One past the last number of the program.
  long end() const noexcept { return static_cast<long>(limit_.rlim_cur); }

 private:
  static constexpr rlim_t kBeyond = 2 * kFilesMax;
  static bool set(const rlimit& limit) noexcept {
    return !failed(raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, as_long(&limit), 0));
  }

  NoSignals signals_;  // let in again after the limit is what it was
  rlimit limit_{};
  bool raised_ = false;
};

/// A duplicate above the numbers that the program may use, or near their end: programs close, count or use up the low ones. The table
/// of descriptors, which each fork copies, reaches up to the highest.
int duplicate(int fd) noexcept {
  constexpr long kHigh = 65536 - 96, kHighEnough = 16384;
  const BeyondLimit beyond;
  long made = -EMFILE, at = beyond.middle() < kHighEnough ? beyond.middle() : kHighEnough;
  if (at < beyond.first()) at = beyond.first();
  if (beyond.first() && at <= kHigh) made = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, at);
  if (failed(made) && beyond.first()) made = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, beyond.first());
  if (!failed(made)) return static_cast<int>(made);
  at = beyond.end() < 65536 ? beyond.end() - 96 : kHigh;
  made = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, at > beyond.end() / 2 ? at : beyond.end() / 2);
  return static_cast<int>(failed(made) ? raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3) : made);
}

/// Whether a mapping made with one is a mapping made with the other.
bool is_alike(int a, int b) noexcept {
  struct stat first, second;
  struct statfs system;
  if (failed(raw_syscall(SYS_fstat, a, as_long(&first)))) return false;
  if (failed(raw_syscall(SYS_fstat, b, as_long(&second)))) return false;
  if (first.st_dev != second.st_dev || first.st_ino != second.st_ino) return false;
  const long mode = raw_syscall(SYS_fcntl, a, F_GETFL) & O_ACCMODE;
  if ((raw_syscall(SYS_fcntl, b, F_GETFL) & O_ACCMODE) != mode) return false;
  if (mode == O_RDWR) return true;
  return !failed(raw_syscall(SYS_fstatfs, a, as_long(&system))) && system.f_type != OVERLAYFS_SUPER_MAGIC;
}

bool is_same_open_file(int a, int b) noexcept {
  constexpr long kQuery = 1024 + 3;  // F_DUPFD_QUERY
  const long same = raw_syscall(SYS_fcntl, a, kQuery, b);
  return failed(same) ? is_alike(a, b) : same == 1;
}

/// Programs close numbers that they do not know of, and use them again.
bool is_still_there(const File& f) noexcept { return f.fd >= 0 && key_of_file(f.fd) == f.key; }

File* unused() noexcept {
  for (std::size_t i = 0; i < top; ++i)
    if (files[i].key == 0) return &files[i];
  return top < kFilesMax ? &files[top++] : nullptr;
}

/// The duplicate of what `fd` has open. Of those in use only a few are asked for, the newest if none has gone: a second duplicate of an
/// open file goes as the first does. What is kept is asked for always, that no more is kept than there are open files.
File* find_open_file(int fd, std::uint64_t key) noexcept {
  int in_use = 16;
  for (std::size_t i = top; i-- > 0;) {
    File& f = files[i];
    if (f.key != key || f.fd < 0 || (f.users > 0 && --in_use < 0)) continue;
    if (is_same_open_file(f.fd, fd)) return &f;
  }
  return nullptr;
}

/// Of a file without users.
void close_if_unlocked(File& f) noexcept {
  if (is_still_there(f)) {
    if (may_hold_lock(f.fd, f.key)) return;
    raw_syscall(SYS_close, f.fd);
  }
  f = {};
  --kept;
}

/// `fd` is a new descriptor: what had this number is not there any more.
void forget_number(int fd) noexcept {
  for (std::size_t i = 0; i < top; ++i) {
    File& f = files[i];
    if (f.key == 0 || f.fd != fd) continue;
    f.fd = -1;
    if (f.users == 0) f = {}, --kept;
  }
}

/// `key` 0: of every file.
void close_what_may_go(std::uint64_t key) noexcept {
  if (kept == 0 || !is_thread()) return;
  for (std::size_t i = 0; i < top; ++i)
    if (files[i].key && files[i].users == 0 && (key == 0 || files[i].key == key)) close_if_unlocked(files[i]);
}

/// Looks at a few of those that are kept, and at others the next time.
void close_some() noexcept {
  constexpr std::size_t kAtOnce = 8;
  if (!is_thread()) return;
  std::size_t looked = 0;
  for (std::size_t i = 0; i < top && looked < kAtOnce && kept > 0; ++i) {
    next_look = next_look + 1 < top ? next_look + 1 : 0;
    File& f = files[next_look];
    if (f.key == 0 || f.users > 0) continue;
    ++looked;
    close_if_unlocked(f);
  }
}

void look_again(std::size_t& left, std::size_t more) noexcept {
  if (kept > left + (left / 2 > more ? left / 2 : more)) {
    if (renew_locked_files()) close_what_may_go(0);
    left = kept;
  }
  if (left > kept) left = kept;
}

void clear_up() noexcept {
  close_some();
  look_again(left_at_maps, kMoreAtMaps);
}

}  // namespace

int hold_descriptor(int fd) noexcept {
  const std::uint64_t key = key_of_file(fd);
  if (!key) return -EBADF;
  const NoNewLocks quiet;
  if (File* f = find_open_file(fd, key)) {
    if (f->users++ == 0) --kept;
    return static_cast<int>(f - files);
  }
  clear_up();
  File* const place = unused();
  if (!place) return -ENOMEM;
  int made = duplicate(fd);
  if (made == -EMFILE && kept > 0 && renew_locked_files()) {
    close_what_may_go(0);
    made = duplicate(fd);
  }
  if (made < 0) return made;
  forget_number(made);
  *place = {key, made, 1};
  return static_cast<int>(place - files);
}

int descriptor_of(int held) noexcept { return held >= 0 && is_still_there(files[held]) ? files[held].fd : -EBADF; }

bool is_noticed(int held) noexcept {
  const NoNewLocks quiet;
  struct stat status;
  const int fd = descriptor_of(held);
  if (failed(raw_syscall(SYS_fstat, fd, as_long(&status)))) return true;
  if (status.st_nlink == 0) return true;
  if ((status.st_mode & 0111) && (raw_syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY) return true;
  return shows_open_file_lock(fd);
}

void share_descriptor(int held) noexcept {
  if (held < 0) return;
  const NoNewLocks quiet;
  ++files[held].users;
}

void let_go_descriptor(int held) noexcept {
  if (held < 0) return;
  const NoNewLocks quiet;
  File& f = files[held];
  if (--f.users > 0) return;
  ++kept;
  if (is_thread()) close_if_unlocked(f);
  clear_up();
}

void close_descriptor(int fd) noexcept {
  const NoNewLocks quiet;
  const std::uint64_t key = key_of_file(fd);
  forget_number(fd);
  File* const place = may_hold_lock(fd, key) ? unused() : nullptr;
  if (!place) {
    raw_syscall(SYS_close, fd);
    return;
  }
  *place = {key, fd, 0};
  ++kept;
}

void close_unlocked(std::uint64_t key) noexcept {
  if (kept == 0 || key == 0) return;
  const NoNewLocks quiet;
  close_what_may_go(key);
}

void count_kept_descriptors() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < top; ++i) count += files[i].key && files[i].users == 0;
  kept = count;
}

void clear_up_before_lock() noexcept { look_again(left_at_locks, kMoreAtLocks); }

void keep_locks_over_exec(bool keep) noexcept {
  if (top == 0) return;
  const NoNewLocks quiet;
  bool may_keep = false;
  for (std::size_t i = 0; i < top; ++i)
    may_keep |= files[i].key && is_still_there(files[i]) && may_hold_lock(files[i].fd, files[i].key);
  if (keep && !may_keep) return;    // nearly always; what comes next looks at every descriptor
  if (keep) renew_locked_files();  // where the system does not tell, all that may have a lock is kept
  for (std::size_t i = 0; i < top; ++i)
    if (files[i].key && is_still_there(files[i]) && (!keep || may_hold_lock(files[i].fd, files[i].key)))
      raw_syscall(SYS_fcntl, files[i].fd, F_SETFD, keep ? 0 : FD_CLOEXEC);
}

long open_beyond_limit(long number, long a, long b, long c) noexcept {
  const long opened = raw_syscall(number, a, b, c);
  if (opened != -EMFILE || !self) return opened;  // the runtime's own threads are in main's process, where the program runs
  const BeyondLimit beyond;
  return raw_syscall(number, a, b, c);
}

long open_memory_file(const char* name, std::size_t bytes) noexcept {
  const long file = open_beyond_limit(SYS_memfd_create, as_long(name), 1 /* MFD_CLOEXEC */);
  if (failed(file)) return file;
  const long sized = raw_syscall(SYS_ftruncate, file, static_cast<long>(bytes));
  if (!failed(sized)) return file;
  raw_syscall(SYS_close, file);
  return sized;
}

}  // namespace mortise::isolate
