// transfers.cpp: catching up with memory before the kernel touches it.
#include "transfers.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <sys/time.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "raw.hpp"
#include "signal_files.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

enum class Use { reads, writes };  // the kernel does

void catch_up(Use use, const void* memory, std::size_t bytes) noexcept {
  const auto low = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t high = low + bytes;
  const bool may_be_lazy = use == Use::writes && has_lazy_files();
  if (high <= low || (!may_be_lazy && !in_file_window(low)) || !is_thread()) return;
  for (std::uintptr_t at = low, next; at < high; at = next) {
    next = piece_end(at, high);
    if (may_be_lazy && next > at / kLazyBlock * kLazyBlock + kLazyBlock) next = at / kLazyBlock * kLazyBlock + kLazyBlock;
    if (!catch_up_file(at)) catch_up_file_rights(at, use == Use::writes ? PROT_WRITE : PROT_READ);
    if (may_be_lazy) promote_on_write(at);
  }
}

void catch_up(Use use, const iovec* pieces, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) catch_up(use, pieces[i].iov_base, pieces[i].iov_len);
}

/// Of a socket with a time limit: whether that is over. Counted from the first signal of the runtime that has ended the call.
class Limit {
 public:
  explicit Limit(Use use, int fd) noexcept : option_(use == Use::writes ? SO_RCVTIMEO : SO_SNDTIMEO), fd_(fd) {}
  bool is_over() noexcept {
    timeval limit{};
    socklen_t bytes = sizeof limit;
    if (end_ == 0 && failed(raw_syscall(SYS_getsockopt, fd_, SOL_SOCKET, option_, as_long(&limit), as_long(&bytes)))) return false;
    if (end_ == 0) end_ = limit.tv_sec || limit.tv_usec ? now_ns() + (limit.tv_sec * 1'000'000 + limit.tv_usec) * 1000 : INT64_MAX;
    return now_ns() >= end_;
  }

 private:
  int option_, fd_;
  std::int64_t end_ = 0;
};

template <class... Argument>
ssize_t transfer(Use use, long number, int fd, Argument... arguments) {
  Limit limit(use, fd);
  const long result = until_interrupted([&] {
    const long done = cancellable_call(number, fd, arguments...);
    return done == -EINTR && limit.is_over() ? -EAGAIN : done;
  });
  return failed(result) ? (errno = static_cast<int>(-result), -1) : result;
}

long size(std::size_t bytes) noexcept { return static_cast<long>(bytes); }

/// Credentials that a program sends (SCM_CREDENTIALS) name the program, and the kernel lets nobody but the privileged name another
/// process than the caller's: puts that in their stead, in a copy. False: it is not that.
bool name_this_process(msghdr& message, std::byte* room, std::size_t bytes) noexcept {
  if (!is_thread() || is_leader() || message.msg_controllen > bytes) return false;
  std::memcpy(room, message.msg_control, message.msg_controllen);
  message.msg_control = room;
  bool any = false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS || c->cmsg_len < CMSG_LEN(sizeof(ucred))) continue;
    ucred who;
    std::memcpy(&who, CMSG_DATA(c), sizeof who);
    if (who.pid != leader->pid.load()) continue;
    who.pid = raw_getpid();
    std::memcpy(CMSG_DATA(c), &who, sizeof who);
    any = true;
  }
  return any;
}

}  // namespace

ssize_t read_file(int fd, void* to, std::size_t bytes) {
  catch_up(Use::writes, to, bytes);
  if (ssize_t got; may_be_signal_file(fd) && read_signals(fd, to, bytes, got)) return got;
  return transfer(Use::writes, SYS_read, fd, as_long(to), size(bytes));
}

ssize_t read_file_at(int fd, void* to, std::size_t bytes, off_t offset) {
  catch_up(Use::writes, to, bytes);
  return transfer(Use::writes, SYS_pread64, fd, as_long(to), size(bytes), offset);
}

ssize_t read_pieces(int fd, const iovec* pieces, int count) {
  if (count > 0) catch_up(Use::writes, pieces, static_cast<std::size_t>(count));
  return transfer(Use::writes, SYS_readv, fd, as_long(pieces), count);
}

ssize_t read_pieces_at(int fd, const iovec* pieces, int count, off_t offset) {
  if (count > 0) catch_up(Use::writes, pieces, static_cast<std::size_t>(count));
  return transfer(Use::writes, SYS_preadv, fd, as_long(pieces), count, offset);
}

ssize_t read_pieces_with(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (count > 0) catch_up(Use::writes, pieces, static_cast<std::size_t>(count));
  return transfer(Use::writes, SYS_preadv2, fd, as_long(pieces), count, offset, 0, flags);
}

ssize_t write_file(int fd, const void* from, std::size_t bytes) {
  catch_up(Use::reads, from, bytes);
  return transfer(Use::reads, SYS_write, fd, as_long(from), size(bytes));
}

ssize_t write_file_at(int fd, const void* from, std::size_t bytes, off_t offset) {
  catch_up(Use::reads, from, bytes);
  return transfer(Use::reads, SYS_pwrite64, fd, as_long(from), size(bytes), offset);
}

ssize_t write_pieces(int fd, const iovec* pieces, int count) {
  if (count > 0) catch_up(Use::reads, pieces, static_cast<std::size_t>(count));
  return transfer(Use::reads, SYS_writev, fd, as_long(pieces), count);
}

ssize_t write_pieces_at(int fd, const iovec* pieces, int count, off_t offset) {
  if (count > 0) catch_up(Use::reads, pieces, static_cast<std::size_t>(count));
  return transfer(Use::reads, SYS_pwritev, fd, as_long(pieces), count, offset);
}

ssize_t write_pieces_with(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (count > 0) catch_up(Use::reads, pieces, static_cast<std::size_t>(count));
  return transfer(Use::reads, SYS_pwritev2, fd, as_long(pieces), count, offset, 0, flags);
}

ssize_t receive(int fd, void* to, std::size_t bytes, int flags) { return receive_from(fd, to, bytes, flags, nullptr, nullptr); }

ssize_t receive_from(int fd, void* to, std::size_t bytes, int flags, sockaddr* who, socklen_t* who_bytes) {
  catch_up(Use::writes, to, bytes);
  return transfer(Use::writes, SYS_recvfrom, fd, as_long(to), size(bytes), flags, as_long(who), as_long(who_bytes));
}

ssize_t receive_message(int fd, msghdr* message, int flags) {
  if (message) catch_up(Use::writes, message->msg_iov, message->msg_iovlen);
  return transfer(Use::writes, SYS_recvmsg, fd, as_long(message), flags);
}

ssize_t send_bytes(int fd, const void* from, std::size_t bytes, int flags) { return send_bytes_to(fd, from, bytes, flags, nullptr, 0); }

ssize_t send_bytes_to(int fd, const void* from, std::size_t bytes, int flags, const sockaddr* whom, socklen_t whom_bytes) {
  catch_up(Use::reads, from, bytes);
  return transfer(Use::reads, SYS_sendto, fd, as_long(from), size(bytes), flags, as_long(whom), whom_bytes);
}

ssize_t send_message(int fd, const msghdr* message, int flags) {
  if (message) catch_up(Use::reads, message->msg_iov, message->msg_iovlen);
  const ssize_t sent = transfer(Use::reads, SYS_sendmsg, fd, as_long(message), flags);
  if (sent >= 0 || errno != EPERM) return sent;
  alignas(cmsghdr) std::byte room[512];
  msghdr mine = *message;
  return name_this_process(mine, room, sizeof room) ? transfer(Use::reads, SYS_sendmsg, fd, as_long(&mine), flags) : sent;
}

}  // namespace mortise::isolate
