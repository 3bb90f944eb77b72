// helper.hpp: the kernel thread in the leader's process that waits for the ends of all other threads.
#pragma once

#include <csignal>
#include <cstdint>

namespace mortise::isolate {

/// Starts the helper unless it runs already. False: no memory or no process.
bool start_helper() noexcept;

/// In the child of a fork: there is no helper any more; the next thread starts one.
void forget_helper() noexcept;

/// Tells the helper that there is one more process to wait for.
void helper_notice() noexcept;

/// In main: the program has reaped this process itself, which may be a thread's.
void helper_forestalled(int pid, int status) noexcept;

/// What wait() would have told of the end that waitid() tells of.
int wait_status(const siginfo_t& info) noexcept;

/// A count that grows with each process the helper has reaped, and a way to sleep until it is no longer `seen`.
std::uint32_t helper_progress() noexcept;
void helper_wait_for_progress(std::uint32_t seen) noexcept;

}  // namespace mortise::isolate
