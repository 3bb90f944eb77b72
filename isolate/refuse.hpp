// refuse.hpp: programs that cannot be isolated are told so in one line, with exit status 78.
#pragma once

namespace mortise::isolate {

/// Looks for what is known not to work in the program as it is loaded. Returns when nothing was found (or when the user
/// insists, see message.hpp).
void refuse_what_cannot_work() noexcept;
void refuse_own_thread() noexcept;
void refuse_kernel_object(const char* what) noexcept;

/// Whether the program is told that the system has none (ENOSYS), for which it is likely to have another way; unless the user insists. Says
/// so once.
bool denies_kernel_object(const char* what) noexcept;

/// Whether it is /dev/zero.
bool is_zero_device(int fd) noexcept;

/// Refuses to map the file when it is a device, or an object such as an io_uring, of one address space.
void refuse_device(int fd) noexcept;

}  // namespace mortise::isolate
