// transfers.hpp: calls in which the kernel reads from or writes to memory of the program.
//
// A mapping that another thread has made, or a private one of a file before it is written, is caught up with by a fault (fault.hpp). In
// a system call there is none: the kernel answers EFAULT, or moves what comes before. So what a call is given is caught up with first.
#pragma once

#include <cstddef>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace mortise::isolate {

/// Replacements of libc's calls, by way of which its streams go. Points of cancellation. One that only a signal of the runtime has ended
/// is made again: those of a socket with a time limit, which may then take up to twice as long.
ssize_t read_file(int fd, void* to, std::size_t bytes);
ssize_t read_file_at(int fd, void* to, std::size_t bytes, off_t offset);
ssize_t read_pieces(int fd, const iovec* pieces, int count);
ssize_t read_pieces_at(int fd, const iovec* pieces, int count, off_t offset);
ssize_t read_pieces_with(int fd, const iovec* pieces, int count, off_t offset, int flags);
ssize_t write_file(int fd, const void* from, std::size_t bytes);
ssize_t write_file_at(int fd, const void* from, std::size_t bytes, off_t offset);
ssize_t write_pieces(int fd, const iovec* pieces, int count);
ssize_t write_pieces_at(int fd, const iovec* pieces, int count, off_t offset);
ssize_t write_pieces_with(int fd, const iovec* pieces, int count, off_t offset, int flags);
ssize_t receive(int fd, void* to, std::size_t bytes, int flags);
ssize_t receive_from(int fd, void* to, std::size_t bytes, int flags, sockaddr* who, socklen_t* who_bytes);
ssize_t receive_message(int fd, msghdr* message, int flags);
ssize_t send_bytes(int fd, const void* from, std::size_t bytes, int flags);
ssize_t send_bytes_to(int fd, const void* from, std::size_t bytes, int flags, const sockaddr* whom, socklen_t whom_bytes);
ssize_t send_message(int fd, const msghdr* message, int flags);

}  // namespace mortise::isolate
