// descriptors.hpp: the runtime's own duplicates of the program's descriptors.
//
// One for each open file, whatever number of mappings is made of it. It is closed with the last of them, unless that
// would take a record lock of the program's away (record_locks.hpp): then it stays until nobody has a lock on the file,
// and the next mapping of the same open file uses it again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// In the place of one: of what there is no descriptor of. The calls below may be given it.
inline constexpr int kNoDescriptor = -1;

/// A duplicate of what `fd` has open, for one user more: what the calls below know it by, or -errno.
int hold_descriptor(int fd) noexcept;

/// Its number; -EBADF where the program has closed it, whatever the number is now.
int descriptor_of(int held) noexcept;

/// Whether it would be noticed that the open file stays mapped somewhere: by its locks, by what may not be done while a file is open
/// for writing (executing it, sealing it), or by the space that a deleted file takes.
bool is_noticed(int held) noexcept;

/// One user more.
void share_descriptor(int held) noexcept;

/// One user less.
void let_go_descriptor(int held) noexcept;

/// Closes a descriptor that the runtime has opened by a name, or keeps it as above.
void close_descriptor(int fd) noexcept;

/// Closes what was kept of the file `key` for a lock's sake, if there is none any more.
void close_unlocked(std::uint64_t key) noexcept;

/// In the child of a fork: another thread may have been in the middle of a change.
void count_kept_descriptors() noexcept;

/// When the program is about to take a lock: what stayed for others' locks may go, if it has become much. Inside
/// NoNewLocks.
void clear_up_before_lock() noexcept;

/// Before an exec: what must not be closed for a lock's sake stays open in the new program. `false`: the exec failed.
void keep_locks_over_exec(bool keep) noexcept;

/// A system call that opens something for the runtime. Where the program may have no more descriptors it goes past its limit: with ordinary
/// threads it would need none for this. The kernel's answer.
long open_beyond_limit(long number, long a, long b = 0, long c = 0) noexcept;

/// A file in memory of `bytes`, or -errno.
long open_memory_file(const char* name, std::size_t bytes) noexcept;

}  // namespace mortise::isolate
